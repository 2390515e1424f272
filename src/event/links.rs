//! The links of a pane's lines (OSC 8): where they are in the text, and their addresses.
//!
//! Only addresses that are safe to show and to open are links: those of the web and of mail, in printable ASCII.

use serde::{Deserialize, Serialize};

/// Maximum number of links in an event; further ones are dropped. It is one for every 64 bytes of 64 KiB, and a
/// screen has far fewer.
const LINKS_MAX: usize = 1024;

/// Maximum size of all addresses in an event, in bytes: 128 for each of [`LINKS_MAX`] links.
const ADDRESSES_BYTES_MAX: usize = 128 * 1024;

/// A run of characters that links to an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The number of the line, as `first_line` counts.
    pub line: i64,
    /// The first character of the run in its line, from 0.
    pub start: u32,
    /// The first character after the run.
    pub end: u32,
    /// The address: `http`, `https` or `mailto`, in printable ASCII without blanks.
    pub url: String,
}

/// The links of an event's text, in the order of the text, without overlaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Link>", into = "Vec<Link>")]
pub struct Links(
    #[expect(
        clippy::box_collection,
        reason = "few events have links, and all events are as large as the largest"
    )]
    Option<Box<Vec<Link>>>,
);

impl From<Vec<Link>> for Links {
    fn from(links: Vec<Link>) -> Self {
        Self::new(links)
    }
}

impl From<Links> for Vec<Link> {
    fn from(links: Links) -> Self {
        links.0.map_or_else(Self::new, |links| *links)
    }
}

impl Links {
    /// Creates links from a list, of which at most 1,024 with 128 KiB of addresses are kept. Links without text, and
    /// those to other addresses than [`Link::url`] names, are dropped.
    #[must_use]
    pub fn new(mut links: Vec<Link>) -> Self {
        links.retain(|link| link.start < link.end && is_address(&link.url));
        links.truncate(LINKS_MAX);
        let mut bytes = 0;
        let mut is_within = |link: &Link| {
            bytes += link.url.len();
            bytes <= ADDRESSES_BYTES_MAX
        };
        let kept = links.iter().position(|link| !is_within(link));
        links.truncate(kept.unwrap_or(links.len()));
        Self((!links.is_empty()).then(|| links.into()))
    }

    /// Returns all links.
    pub fn as_slice(&self) -> &[Link] {
        self.0.as_ref().map_or(&[], |links| links)
    }

    /// Returns true if the text has no links.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Removes all links because their text has changed.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Visits each address, which the visitor may change.
    pub(crate) fn for_each_url(&mut self, visit: &mut dyn FnMut(&mut String)) {
        let links = self.0.iter_mut().flat_map(|links| links.iter_mut());
        links.for_each(|link| visit(&mut link.url));
    }

    /// Appends the links of text that follows.
    pub(crate) fn extend(&mut self, more: &Self) {
        if !more.is_empty() {
            let mut all = Vec::from(std::mem::take(self));
            all.extend_from_slice(more.as_slice());
            *self = Self::new(all);
        }
    }

    /// Returns the links of the line with this number.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn of_line(&self, line: i64) -> &[Link] {
        let all = self.as_slice();
        let rest = &all[all.partition_point(|link| link.line < line)..];
        &rest[..rest.partition_point(|link| link.line == line)]
    }

    /// Renumbers lines: `new_line` returns a line's new number, or `None` to remove its links.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn move_lines(&mut self, new_line: impl Fn(i64) -> Option<i64>) {
        let links = Vec::from(std::mem::take(self)).into_iter();
        let moved = links.filter_map(|link| {
            let line = new_line(link.line)?;
            Some(Link { line, ..link })
        });
        *self = Self::new(moved.collect());
    }
}

/// Returns true for the address of a link: its scheme is `http`, `https` or `mailto`, and it has neither blanks nor
/// controls, nor characters beyond ASCII, which OSC 8 demands to be encoded.
pub(crate) fn is_address(address: &str) -> bool {
    let begins = |scheme: &str| {
        let start = address.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    ["http://", "https://", "mailto:"].into_iter().any(begins)
        && address.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(line: i64, url: &str) -> Link {
        let url = url.to_owned();
        Link {
            line,
            start: 0,
            end: 3,
            url,
        }
    }

    #[test]
    fn only_safe_addresses_are_links() {
        for url in [
            "http://x",
            "HTTPS://X.example/?a;b=(c)",
            "mailto:a@b.c",
            "https://x/?token=[redacted:password]",
        ] {
            assert_eq!(Links::new(vec![link(1, url)]).as_slice().len(), 1, "{url}");
        }
        for url in [
            "",
            "http",
            "x",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https:",
            "https://a b",
            "https://a\x1b]0;b",
            "https://a\u{9b}b",
            "https://ä",
            " https://a",
            "ht\u{e4}",
        ] {
            assert!(Links::new(vec![link(1, url)]).is_empty(), "{url:?}");
            let json = serde_json::json!([link(1, url)]);
            assert!(serde_json::from_value::<Links>(json).unwrap().is_empty());
        }
        let nothing = Link {
            end: 0,
            ..link(1, "http://x")
        };
        assert!(Links::new(vec![nothing]).is_empty());
    }

    #[test]
    fn links_are_bounded() {
        let mut links = Links::new(vec![link(1, "http://x"); LINKS_MAX + 1]);
        assert_eq!(links.as_slice().len(), LINKS_MAX);
        links.extend(&Links::new(vec![link(2, "http://y")]));
        assert_eq!(links.as_slice().len(), LINKS_MAX);
        let long = format!("https://{}", "x".repeat(2075));
        let links = Links::new(vec![link(1, &long); LINKS_MAX]);
        assert_eq!(links.as_slice().len(), ADDRESSES_BYTES_MAX / long.len());
    }

    #[test]
    fn links_move_with_their_lines() {
        let mut links = Links::new(vec![link(7, "http://a"), link(8, "http://b")]);
        links.extend(&Links::new(vec![link(8, "http://c"), link(9, "http://d")]));
        assert_eq!(links.of_line(8).len(), 2);
        assert!(links.of_line(6).is_empty() && links.of_line(10).is_empty());
        links.move_lines(|line| (line != 8).then_some(line - 6));
        let moved: Vec<i64> = links.as_slice().iter().map(|link| link.line).collect();
        assert_eq!(moved, [1, 3]);
    }
}
