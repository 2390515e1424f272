//! Answers the question of a row from within the observer's process.

use std::path::PathBuf;

use super::panes::ApiContext;
use super::typing::Input;
use crate::board::Row;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::thread::Stop;
use crate::tmux::{Server, Typing};

impl ApiContext {
    /// Types the key of a choice into the pane of a row, if this question is still open there.
    ///
    /// # Errors
    /// `is_invalid_input()` if input is not allowed, if the row has no pane, or if it asks nothing or something else.
    pub fn answer(&self, id: &str, question_id: &str, key: &str, stop: &Stop) -> Result<()> {
        if !self.panes.allows_input {
            return Err(Error::invalid(
                "this observer types nothing: it was started without --allow-input",
            ));
        }
        let rows = self.feed.rows();
        let row = rows.iter().find(|row| row.key().to_string() == id);
        let place = row.and_then(Row::place);
        let place = place.ok_or_else(|| Error::invalid("its pane is gone"))?;
        let socket = PathBuf::from(&place.server);
        let server = Server::socket(&socket).until(stop.clone());
        let input = Input {
            typing: Typing::text(key, true)?,
            may_leave_enter: true,
            answers: Some(question_id),
        };
        let row_of = |pane: &PaneId| Ok(self.row_of(pane, &socket));
        let panes = std::slice::from_ref(&place.pane);
        input.send((&server, panes), &row_of, (stop, &self.clock))?;
        Ok(())
    }
}
