"""The file modes: a log of plain files per stream, in segments that anyone can copy, and a catalogue of the names."""
