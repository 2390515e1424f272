// SGR parameters as classes and colours that are readable in both themes (pure).

// The background of output in each theme; style.css has the same values.
const THEMES = {
  dark: { back: [17, 20, 26], fore: [214, 219, 227], base: [
    [72, 79, 91], [240, 113, 120], [126, 200, 120], [229, 192, 123], [110, 168, 254], [205, 147, 240], [94, 200, 210], [200, 206, 214],
    [139, 148, 160], [255, 139, 145], [152, 220, 146], [245, 215, 150], [147, 190, 255], [222, 174, 250], [134, 222, 230], [255, 255, 255]] },
  light: { back: [255, 255, 255], fore: [31, 36, 44], base: [
    [31, 36, 44], [180, 35, 42], [26, 115, 40], [133, 88, 0], [20, 88, 190], [130, 50, 160], [0, 107, 120], [95, 102, 112],
    [80, 88, 99], [200, 40, 50], [30, 125, 45], [140, 95, 0], [30, 100, 210], [145, 60, 180], [0, 115, 130], [60, 66, 76]] },
};

const CONTRAST = 4.5;
const cache = new Map();
// Programs with gradients use any number of colours.
const CACHE_MAX = 2000;

// Returns the appearance of SGR parameters: `{classes, dark, light}`, themes with `fore` and `back` or null.
export function appearance(sgr) {
  let known = cache.get(sgr);
  if (known === undefined) {
    if (cache.size >= CACHE_MAX) cache.clear();
    known = computed(sgr);
    cache.set(sgr, known);
  }
  return known;
}

function computed(sgr) {
  const style = parsed(sgr);
  const classes = ["bold", "italic", "underline", "strike"].filter((name) => style[name]);
  const isPlain = style.fore === undefined && style.back === undefined && !style.dim && !style.inverse;
  const colours = isPlain ? { dark: null, light: null } : { dark: inTheme(style, THEMES.dark), light: inTheme(style, THEMES.light) };
  return { classes, ...colours };
}

function inTheme(style, theme) {
  let fore = rgbOf(style.fore, theme);
  let back = rgbOf(style.back, theme);
  if (style.inverse) [fore, back] = [back ?? theme.back, fore ?? theme.fore];
  const ground = back ?? theme.back;
  if (style.dim) fore = mixed(fore ?? theme.fore, ground, 0.35);
  // Text on a background of its own stays readable, too, if it has no colour.
  return { fore: css(readable(fore ?? theme.fore, ground)), back: back && css(back) };
}

// Returns the style of SGR parameters: colours are a number of the palette or an RGB array.
export function parsed(sgr) {
  const style = {};
  const parts = String(sgr).split(";");
  for (let i = 0; i < parts.length; i++) {
    // `4:3` is a curly underline; `38:2::1:2:3` has its colour in one part.
    const [first, ...rest] = parts[i].split(":");
    const code = Number(first);
    if (code === 0) for (const key of Object.keys(style)) delete style[key];
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4 || code === 21) style.underline = rest[0] !== "0";
    else if (code === 7) style.inverse = true;
    else if (code === 9) style.strike = true;
    else if (code >= 30 && code <= 37) style.fore = code - 30;
    else if (code >= 90 && code <= 97) style.fore = code - 82;
    else if (code >= 40 && code <= 47) style.back = code - 40;
    else if (code >= 100 && code <= 107) style.back = code - 92;
    else if (code === 38 || code === 48 || code === 58) {
      const isOnePart = rest.length > 0;
      const args = isOnePart ? rest : parts.slice(i + 1, i + 5);
      const isRgb = args[0] === "2";
      // With colons, RGB has a colour space before its numbers.
      const from = isOnePart && isRgb && args.length > 4 ? 2 : 1;
      const colour = isRgb ? args.slice(from, from + 3).map(byte) : byte(args[1]);
      if (!isOnePart) i += isRgb ? 4 : 2;
      if (code === 38) style.fore = colour;
      if (code === 48) style.back = colour;
    }
  }
  return style;
}

const byte = (text) => Math.min(255, Math.max(0, Number(text) || 0));

function rgbOf(colour, theme) {
  if (colour === undefined) return null;
  if (Array.isArray(colour)) return colour.length === 3 ? colour : null;
  if (colour < 16) return theme.base[colour];
  if (colour >= 232) return Array(3).fill(8 + (colour - 232) * 10);
  const level = (n) => (n === 0 ? 0 : 55 + 40 * n);
  const cube = colour - 16;
  return [level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)];
}

const css = (rgb) => `rgb(${rgb.map(Math.round).join(" ")})`;
const mixed = (a, b, share) => a.map((value, i) => value * (1 - share) + b[i] * share);

// Returns a colour that is readable on a background (WCAG AA): programs choose colours for the theme of their
// terminal, and white text on a white page would be lost.
export function readable(fore, back) {
  const pole = luminance(back) > 0.18 ? [0, 0, 0] : [255, 255, 255];
  for (let share = 0; share < 1; share += 0.1) {
    const colour = mixed(fore, pole, share);
    if (contrast(colour, back) >= CONTRAST) return colour;
  }
  return pole;
}

export function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
