// The rows of a tree of names that are in order: folders, and streams. What a folder holds is skipped over, not walked through.

// The place of the first name that is not before a text.
function lowerBound(names, text) {
  let low = 0, high = names.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (names[middle] < text) low = middle + 1;
    else high = middle;
  }
  return low;
}

// "0" is what comes after "/": the end of everything that a prefix with a slash at its end begins.
const endOf = (names, folder) => lowerBound(names, `${folder.slice(0, -1)}0`);

export const countBelow = (names, folder) => endOf(names, folder) - lowerBound(names, folder);

export function treeRows(names, open, prefix, depth = 0, rows = []) {
  const end = endOf(names, prefix);
  for (let at = lowerBound(names, prefix); at < end; ) {
    const rest = names[at].slice(prefix.length), slash = rest.indexOf("/");
    if (slash < 0) { rows.push({ name: names[at], label: rest, depth }); at++; continue; }
    const folder = prefix + rest.slice(0, slash + 1), after = endOf(names, folder);
    rows.push({ folder, label: rest.slice(0, slash + 1), depth, count: after - at, open: open.has(folder) });
    if (open.has(folder)) treeRows(names, open, folder, depth + 1, rows);
    at = after;
  }
  return rows;
}
