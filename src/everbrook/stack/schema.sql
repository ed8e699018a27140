-- The two tables of the stack. What an application writes into `items` goes to the stream `pg-items`;
-- what is appended to the stream `session-events` comes into `session_events`.

CREATE TABLE IF NOT EXISTS items (
    id SERIAL PRIMARY KEY,
    title TEXT NOT NULL,
    body TEXT,
    created_at TIMESTAMPTZ DEFAULT NOW()
);

CREATE TABLE IF NOT EXISTS session_events (
    id SERIAL PRIMARY KEY,
    stream_name TEXT NOT NULL,
    event_key TEXT,
    event_type TEXT,
    operation TEXT,
    payload JSONB NOT NULL,
    ds_offset TEXT,
    received_at TIMESTAMPTZ DEFAULT NOW(),
    UNIQUE (stream_name, ds_offset)
);
