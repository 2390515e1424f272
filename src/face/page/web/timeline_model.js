// The bands of the timeline: from, until and what they are called (pure).

export const BANDS = ["waiting", "error", "limited", "suspended", "working", "running", "done", "idle", "unknown", "not_observed", "ended"];

// Returns the bands of a row as `{band, from, until}` in milliseconds, within the span. Nothing is drawn after `ended`.
export function bandsOf(row, from, until) {
  const bands = [];
  row.bands.forEach(([ts, band], index) => {
    const begin = Math.max(from, Date.parse(ts));
    const next = row.bands[index + 1];
    const end = Math.min(until, next ? Date.parse(next[0]) : until);
    if (band !== "ended" && end > begin) bands.push({ band, from: begin, until: end });
  });
  return bands;
}

// Returns the times of ticks, at round local times.
export function ticksOf(from, until, count) {
  const steps = [10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const span = (until - from) / 1000;
  const step = (steps.find((seconds) => span / seconds <= count) ?? 86400) * 1000;
  const shift = new Date(from).getTimezoneOffset() * 60_000;
  const ticks = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= until; at += step) ticks.push(at);
  return ticks;
}
