// Makes elements. Text is always set as text: no HTML of any string reaches the page.

export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);

// Setting the same text again would lay out the element again.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Puts elements in their order at the start of their parent, without moving those that are in place.
export function reorder(parent, elements) {
  let next = parent.firstElementChild;
  for (const element of elements) {
    if (element === next) next = next.nextElementSibling;
    // `moveBefore` keeps the focus and the text that is being typed; older browsers do not have it.
    else if (parent.moveBefore && element.isConnected) parent.moveBefore(element, next);
    else parent.insertBefore(element, next);
  }
}

// Runs a function that moves elements, and gives the focus back to the element that had it.
export function keepingFocus(move) {
  const focused = document.activeElement;
  move();
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}
