// Splits the rows of a screen into spans of one appearance (pure).

// Returns for each row its spans `[text, sgr, isCursor]`. The places of styles count code points.
export function spansOfScreen({ rows, styles, cursor, width }) {
  const byRow = new Map();
  for (const [row, start, end, sgr] of styles ?? []) {
    if (!byRow.has(row)) byRow.set(row, []);
    byRow.get(row).push({ start, end, sgr });
  }
  return rows.map(({ row, text }) => {
    const at = cursor && cursor.y === row ? cursor.x : null;
    return spansOfRow(text, byRow.get(row) ?? [], at, width);
  });
}

export function spansOfRow(text, styles, cursorAt = null, width = 0) {
  const chars = [...text];
  if (cursorAt !== null && (width === 0 || cursorAt < width)) while (chars.length <= cursorAt) chars.push(" ");
  const spans = [];
  let begin = 0;
  const kindAt = (i) => {
    const style = styles.find(({ start, end }) => start <= i && i < end);
    return { sgr: style?.sgr ?? "", isCursor: i === cursorAt };
  };
  let kind = kindAt(0);
  for (let i = 1; i <= chars.length; i++) {
    const next = i < chars.length ? kindAt(i) : null;
    if (next && next.sgr === kind.sgr && next.isCursor === kind.isCursor) continue;
    spans.push([chars.slice(begin, i).join(""), kind.sgr, kind.isCursor]);
    begin = i;
    kind = next;
  }
  return chars.length === 0 ? [] : spans;
}
