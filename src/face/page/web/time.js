// Times for people: ages, clock times, durations (pure but for the clock of the server).

let offset = 0;

// Notes the server's clock. Ages would be wrong on a phone whose clock is off; `Date` has whole seconds,
// so smaller differences are no differences.
export function noteServerTime(date, now = Date.now()) {
  const server = Date.parse(date ?? "");
  if (Number.isNaN(server)) return;
  offset = Math.abs(server - now) > 2000 ? server - now : 0;
}

export function serverNow() {
  return Date.now() + offset;
}

// Returns a duration in its largest unit, as the board of the terminal shows it.
export function age(since, now) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  if (Number.isNaN(seconds)) return "";
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const two = (n) => String(n).padStart(2, "0");

// Lines come in bursts of the same second, so the last answer is kept.
let last = { second: "", today: "", text: "" };

// Returns the local time of a line: `12:03:04`, with the date if it is of another day.
export function clockTime(ts, now = Date.now()) {
  const second = ts.slice(0, 19);
  const today = new Date(now).toDateString();
  if (last.second === second && last.today === today) return last.text;
  const date = new Date(ts);
  if (Number.isNaN(date.getTime())) return "";
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  const day = date.toDateString() === today ? "" : `${two(date.getMonth() + 1)}-${two(date.getDate())} `;
  last = { second, today, text: day + time };
  return last.text;
}

// Returns a time as text for a tick of the time axis.
export function tickTime(ms, span) {
  const date = new Date(ms);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (span > 2 * 86400_000) return `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return span < 300_000 ? `${time}:${two(date.getSeconds())}` : time;
}
