//! Lines as the page gets them (pure).

use std::collections::BTreeMap;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use crate::event::is_address;
use crate::face::styled_text::StyledText;
use crate::face::view_lines::ViewLine;
use crate::timestamp::Timestamp;

/// A line, known by the number of its event and its place among the lines of this event.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    seq: u64,
    nth: u32,
    ts: Timestamp,
    /// The number of a pane's line, which may be revised.
    n: Option<i64>,
    spans: Spans<'a>,
}

impl<'a> Line<'a> {
    pub fn of(line: &'a ViewLine) -> Self {
        Self {
            seq: line.at.seq,
            nth: line.at.nth,
            ts: line.ts,
            n: line.number,
            spans: Spans {
                text: &line.text,
                urls: &line.urls,
            },
        }
    }
}

/// The new text of the last line with this number.
#[derive(Debug, Serialize)]
pub(super) struct Revised<'a> {
    n: i64,
    spans: Spans<'a>,
}

/// The last text of each line that was revised.
pub(super) type Revisions = BTreeMap<i64, StyledText>;

pub(super) fn revised(revisions: &Revisions) -> Vec<Revised<'_>> {
    let revised = revisions.iter().map(|(n, text)| Revised {
        n: *n,
        spans: Spans::of(text),
    });
    revised.collect()
}

/// A text as parts: `["text"]`, `["text", "1;31"]` with its SGR parameters, or `["text", "4", "https://…"]` with the
/// address of its link.
#[derive(Debug)]
pub(super) struct Spans<'a> {
    text: &'a StyledText,
    urls: &'a [String],
}

impl<'a> Spans<'a> {
    /// Returns the parts of a text without links.
    pub fn of(text: &'a StyledText) -> Self {
        Self { text, urls: &[] }
    }
}

impl Serialize for Spans<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = &self.text.text;
        let mut spans = serializer.serialize_seq(None)?;
        let mut done = 0;
        for (range, ink) in &self.text.runs {
            if done < range.start {
                spans.serialize_element(&[&text[done..range.start]])?;
            }
            done = range.end;
            let (part, sgr) = (&text[range.clone()], ink.sgr());
            let link = usize::try_from(ink.link).ok();
            let url = link.and_then(|link| self.urls.get(link.checked_sub(1)?));
            match url.filter(|url| is_address(url)) {
                Some(url) => spans.serialize_element(&[part, &sgr, url])?,
                None => spans.serialize_element(&[part, &sgr])?,
            }
        }
        if done < text.len() {
            spans.serialize_element(&[&text[done..]])?;
        }
        spans.end()
    }
}
