// A list of rows of one height, of which only those in sight are there. It can stick to its end, and says when an end
// comes near. Arrow keys, Page Up and Down, Home and End move the selection.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";

const SPARE_ROWS = 12;
const SPARE_ROWS_STUCK = 2;

export function List({ count, rowHeight, row, label, role = "listbox", selected = -1, onSelect, onOpen, stick = false, onStick, onNearTop, onNearEnd, shift }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const stuck = useRef(stick);
  stuck.current = stick;

  const look = () => {
    if (!box.current) return;
    const { scrollTop: top, clientHeight: height, scrollHeight } = box.current;
    const atEnd = scrollHeight - top - height < rowHeight * 1.5;
    const settled = (old) => old.height === height && ((atEnd && stuck.current) || Math.abs(old.top - top) < rowHeight / 2);
    setView((old) => (settled(old) ? old : { top, height }));
    if (atEnd !== stuck.current) onStick?.(atEnd);
    if (top < height) onNearTop?.();
    if (scrollHeight - top - height < height) onNearEnd?.();
  };
  useEffect(() => {
    const sizes = new ResizeObserver(look);
    sizes.observe(box.current);
    return () => sizes.disconnect();
  }, []);
  useLayoutEffect(() => {
    // Rows that came or went above what is in sight must not move it.
    if (shift?.current) { box.current.scrollTop += shift.current * rowHeight; shift.current = 0; }
    if (stick) box.current.scrollTop = count * rowHeight;
  });
  // To look makes the browser lay everything out at once, which an empty list is not worth.
  useLayoutEffect(() => { if (!stick && count) look(); }, [count]);
  const reveal = (at) => {
    const top = at * rowHeight, { scrollTop, clientHeight } = box.current;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + rowHeight > scrollTop + clientHeight) box.current.scrollTop = top + rowHeight - clientHeight;
  };
  useEffect(() => { if (selected >= 0 && !stick) reveal(selected); }, [selected]);

  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: Math.floor(view.height / rowHeight), PageUp: -Math.floor(view.height / rowHeight), Home: -Infinity, End: Infinity };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && selected >= 0) { event.preventDefault(); onOpen?.(selected); return; }
    if (!(event.key in steps) || !onSelect || event.altKey || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    onSelect(Math.max(0, Math.min(count - 1, selected + steps[event.key])));
  };

  const top = stick ? Math.max(0, count * rowHeight - view.height) : view.top;
  const spare = stick ? SPARE_ROWS_STUCK : SPARE_ROWS;
  const first = Math.max(0, Math.floor(top / rowHeight) - spare);
  const last = Math.min(count, Math.ceil((top + view.height) / rowHeight) + spare);
  const rows = [], option = role === "listbox";
  for (let at = first; at < last; at++) {
    rows.push(html`<div key=${at} id=${`${label}-${at}`} role=${option ? "option" : "listitem"} aria-selected=${option ? at === selected : undefined} aria-setsize=${count} aria-posinset=${at + 1}
      class=${at === selected ? "row selected" : "row"} style=${{ top: `${at * rowHeight}px`, height: `${rowHeight}px` }}
      onClick=${() => onSelect?.(at)} onDblClick=${() => onOpen?.(at)}>${row(at)}</div>`);
  }
  return html`<div class="list" ref=${box} tabindex="0" role=${role} aria-label=${label} onScroll=${look} onKeyDown=${onKeyDown}
    aria-activedescendant=${selected >= first && selected < last ? `${label}-${selected}` : undefined}>
    <div class="rows" style=${{ height: `${count * rowHeight}px` }}>${rows}</div></div>`;
}
