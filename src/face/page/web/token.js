// The token: taken from the address or from what was pasted, and kept for this tab.
// It is kept in sessionStorage and not in a cookie, because all ports of 127.0.0.1 share cookies.

const KEY = "td-token";

export function tokenOf(pasted) {
  const text = pasted.trim();
  // One that a user has chosen (`--token-file`) has other letters than a random one.
  const token = /[#&]token=([\w.~-]{16,512})(?:&|$)/.exec(text) ?? /^([\w.~-]{16,512})$/.exec(text);
  return token ? token[1] : null;
}

export function storedToken(storage = sessionStorage) {
  return storage.getItem(KEY);
}

export function storeToken(token, storage = sessionStorage) {
  if (token) storage.setItem(KEY, token);
  else storage.removeItem(KEY);
}
