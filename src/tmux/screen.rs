//! The present screen of one pane with its colours, from one tmux process at one instant.

use super::server::Nonce;
use super::server::Server;
use super::state::{FORMAT, PaneState};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{Cursor, PaneId, Styles};
use crate::track::sgr_rows;

/// The screen of a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PaneScreen {
    pub pane: PaneId,
    pub title: String,
    pub width: u32,
    pub height: u32,
    pub cursor: Cursor,
    /// True if a full-screen program shows the alternate screen.
    pub alternate: bool,
    /// The text of all rows, from the top.
    pub rows: Vec<String>,
    /// The styles of the rows.
    pub styles: Styles,
}

impl PaneScreen {
    /// Captures the screen of a pane; `None` if the server has no such pane.
    ///
    /// # Errors
    /// Those of [`Server::run`].
    pub fn capture(server: &Server, pane: &PaneId, clock: &Clock) -> Result<Option<Self>> {
        let nonce = Nonce::fresh();
        let began = clock.now();
        let output = server.batch(query(&nonce, pane), clock)?;
        let time = clock.now().saturating_duration_since(began);
        server.captures().add(1, time);
        parse(&nonce, pane, &output.text).ok_or_else(|| {
            Error::other(format!(
                "cannot capture {pane} of {server}: its output has an unexpected form"
            ))
        })
    }
}

fn query(nonce: &Nonce, pane: &PaneId) -> String {
    let mark = nonce.as_str();
    // The condition guards against a missing pane. -N keeps the blanks of coloured bars.
    format!(
        "display-message -p -t '{pane}' '{mark}h#{{?pane_id,{FORMAT},}}{mark}t#{{pane_title}}{mark}r'; \
         capture-pane -p -e -N -t '{pane}'\ndisplay-message -p '{mark}z'\n"
    )
}

/// Parses the output. The outer `None` means that the output is invalid, the inner one that there is no such
/// pane.
fn parse(nonce: &Nonce, pane: &PaneId, output: &str) -> Option<Option<PaneScreen>> {
    match nonce.sections(output)?.as_slice() {
        // For a missing pane, tmux prints no line or only blanks.
        [(b'z', _)] => Some(None),
        [(b'h', header), (b't', title), (b'r', rows), (b'z', _)] => {
            let Some(state) = PaneState::parse(header) else {
                return header.bytes().all(|byte| byte == b' ').then_some(None);
            };
            if state.pane() != *pane {
                return Some(None);
            }
            let (mut rows, styles) = sgr_rows(rows.strip_prefix('\n')?, state.width as usize);
            rows.truncate(state.height as usize);
            Some(Some(PaneScreen {
                pane: pane.clone(),
                title: (*title).to_owned(),
                width: state.width,
                height: state.height,
                cursor: state.cursor,
                alternate: state.alternate,
                rows,
                styles,
            }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_read_and_hostile_titles_change_nothing() {
        let nonce = Nonce::fixed("NN");
        let pane = PaneId::from("%1");
        let numbers = "%1 $0 @0 9 0 0 1 1 80 2 0 2000 3 1 1   0 0   1 0 5 ";
        let text = format!("NNh{numbers}NNta\tNMr\nNNr\n\x1b[31mred\x1b[39m\nplain\nNNz\n");
        let screen = parse(&nonce, &pane, &text).unwrap().unwrap();
        assert_eq!(screen.title, "a\tNMr\n");
        assert_eq!(screen.rows, ["red", "plain"]);
        assert_eq!(screen.styles.as_slice().len(), 1);
        assert_eq!((screen.width, screen.height), (80, 2));
        assert_eq!((screen.cursor.x, screen.cursor.y), (3, 1));
        assert!(screen.alternate);
        assert_eq!(
            parse(&nonce, &pane, "NNh  NNtNNr\nNNz\n"),
            Some(None),
            "gone"
        );
        assert_eq!(parse(&nonce, &pane, "NNz\n"), Some(None), "gone");
        assert_eq!(parse(&nonce, &pane, "NNh"), None, "truncated");
        let other = text.replace("%1 ", "%2 ");
        assert_eq!(parse(&nonce, &pane, &other), Some(None), "another pane");
    }
}
