//! Pages of a view's lines, from the log.

use serde::Serialize;

use super::json::{Line, Revisions, revised};
use super::params::{invalid, number};
use super::source::PageSource;
use crate::api::{Request, Response};
use crate::board::Row;
use crate::error::Result;
use crate::event::Envelope;
use crate::face::local_time::LocalTime;
use crate::face::row_log::{AROUND, RowLog, is_shown};
use crate::face::styled_text::StyledText;
use crate::face::view_lines::{Change, Content, LineView, Lines};
use crate::history::{Page, PageQuery};

/// The maximum number of events of a page.
const RECORDS_MAX: usize = 1_000;

/// The maximum size of their lines in the log: some hundreds of lines of text. A single event may be larger.
const BYTES_MAX: usize = 192 * 1024;

/// The same for the events themselves, which take far more room on the screen than in the log.
const EVENTS_BYTES_MAX: usize = 24 * 1024;

/// The place of a page in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Last,
    Before(u64),
    After(u64),
    /// Around an event.
    At(u64),
}

impl Place {
    /// Returns the place that a request names.
    pub fn of(request: &Request) -> Result<Self, Response> {
        let before = number(request, "before")?.map(Self::Before);
        let after = number(request, "after")?.map(Self::After);
        let at = number(request, "at")?.map(Self::At);
        let mut places = [before, after, at].into_iter().flatten();
        match (places.next(), places.next()) {
            (place, None) => Ok(place.unwrap_or(Self::Last)),
            _ => Err(invalid("give one of before, after and at".to_owned())),
        }
    }
}

/// The events of a page, and what is known of their surroundings.
#[derive(Debug, Default)]
struct Part {
    /// Events before the page. Their lines belong to earlier pages.
    earlier: Vec<Envelope>,
    page: Page,
    /// Revisions after the page.
    later: Vec<Envelope>,
    /// The numbers of the first and last event that the page has read, whether they are of the row or not.
    first: Option<u64>,
    last: Option<u64>,
}

/// The lines of a page.
#[derive(Debug, Default)]
pub(super) struct LinesPage {
    lines: Lines,
    /// The new texts of lines before the page.
    revised: Revisions,
    is_first: bool,
    is_last: bool,
    first: Option<u64>,
    last: Option<u64>,
}

impl Serialize for LinesPage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            lines: Vec<Line<'a>>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            revised: Vec<super::json::Revised<'a>>,
            is_first: bool,
            is_last: bool,
            first: Option<u64>,
            last: Option<u64>,
        }
        let json = Json {
            lines: self.lines.iter().map(Line::of).collect(),
            revised: revised(&self.revised),
            is_first: self.is_first,
            is_last: self.is_last,
            first: self.first,
            last: self.last,
        };
        json.serialize(serializer)
    }
}

impl PageSource {
    /// Returns a page of the lines of a row. A run without a log has one page without lines.
    pub(super) fn lines(
        &self,
        row: &Row,
        view: LineView,
        place: Place,
        is_over: &dyn Fn() -> bool,
    ) -> LinesPage {
        let mut log = RowLog::new(&self.data, row, is_over);
        match part(&mut log, view, place) {
            Ok(part) => part.lines(Content::new(view, LocalTime::of_system())),
            Err(error) => {
                log::debug!("{error:?}");
                LinesPage {
                    is_first: true,
                    is_last: true,
                    ..LinesPage::default()
                }
            }
        }
    }
}

/// Reads a part of a row's log.
fn part(log: &mut RowLog<'_>, view: LineView, place: Place) -> Result<Part> {
    let row = log.row;
    let selects = |envelope: &Envelope| is_shown(row, &envelope.event);
    let query = |share: usize| PageQuery {
        records_max: RECORDS_MAX / share,
        bytes_max: match view {
            LineView::Output | LineView::Logs => BYTES_MAX / share,
            LineView::Events => EVENTS_BYTES_MAX / share,
        },
        selects: &selects,
        is_stopped: log.is_over,
    };
    let (page, first, last) = match place {
        Place::Last => {
            let page = log.pages.last(&query(1))?;
            let (first, last) = (page.first_seq, page.last_seq);
            (page, first, last)
        }
        Place::Before(seq) => {
            let page = log.pages.before(seq, &query(1))?;
            let first = page.first_seq.filter(|first| *first < seq);
            (page, first, first.map(|_| seq - 1))
        }
        Place::After(seq) => {
            let page = log.pages.after(seq, &query(1))?;
            let last = page.last_seq.filter(|last| *last > seq);
            (page, last.map(|_| seq + 1), last)
        }
        Place::At(seq) => {
            let before = log.pages.before(seq, &query(2))?;
            let after = log.pages.after(seq.saturating_sub(1), &query(2))?;
            let first = before.first_seq.filter(|first| *first < seq);
            let last = after.last_seq.filter(|last| *last >= seq);
            let (first, last) = (first.or(last.map(|_| seq)), last.or(first.map(|_| seq - 1)));
            let page = Page {
                events: before.events.into_iter().chain(after.events).collect(),
                is_first: before.is_first,
                is_last: after.is_last,
                ..Page::default()
            };
            (page, first, last)
        }
    };
    let earlier = match first {
        Some(first) if !page.is_first => log.before(first, &AROUND).events,
        _ => Vec::new(),
    };
    let later = match last {
        Some(last) if !page.is_last => log.revisions_after(last, &|_| true),
        _ => Vec::new(),
    };
    Ok(Part {
        earlier,
        page,
        later,
        first,
        last,
    })
}

impl Part {
    fn lines(self, mut content: Content) -> LinesPage {
        for envelope in &self.earlier {
            content.push(envelope, &mut |_| {});
        }
        let mut page = LinesPage {
            is_first: self.page.is_first,
            is_last: self.page.is_last,
            first: self.first,
            last: self.last,
            ..LinesPage::default()
        };
        for envelope in &self.page.events {
            content.push(envelope, &mut |change| match change {
                Change::Line(line) => page.lines.push(line),
                Change::Revised(number, text) => page.revise(number, text),
            });
        }
        for envelope in &self.later {
            content.push(envelope, &mut |change| {
                // Later pages revise other lines.
                if let Change::Revised(number, text) = change
                    && page.has(number)
                {
                    page.revise(number, text);
                }
            });
        }
        page
    }
}

impl LinesPage {
    fn has(&self, number: i64) -> bool {
        self.lines.iter().any(|line| line.number == Some(number))
    }

    fn revise(&mut self, number: i64, text: StyledText) {
        if self.has(number) {
            self.lines.apply(Change::Revised(number, text));
        } else {
            self.revised.insert(number, text);
        }
    }
}
