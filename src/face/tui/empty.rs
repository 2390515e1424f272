//! What stands where there are no lines (pure).

use std::borrow::Cow;

use super::effect::Connection;
use super::model::{Loading, Model};
use super::search::ScanState;
use crate::board::ExecutionKind;
use crate::face::sanitize::one_line;

/// Returns the reason why there are no lines.
pub(super) fn empty_text(model: &Model) -> Cow<'static, str> {
    let words = match &model.view.filter {
        _ if model.board.row().is_none() => match model.connection {
            Connection::Connected => "no row is selected",
            _ => "",
        },
        Some(filter) if matches!(filter.state, ScanState::Reading(_)) => "searching the history…",
        Some(_) => "no line matches the filter; Esc removes it",
        None if model.log.loading == Loading::Whole => "",
        None if model.view.at.is_some() => "nothing was recorded before this time",
        None if model.board.row().is_some_and(|row| row.pane.is_some()) => {
            "nothing was printed since it is observed; s shows its screen"
        }
        None => match model.board.row() {
            // The words of a host that is not read are longer than its line.
            Some(row) if row.kind == ExecutionKind::Host => return one_line(&row.last_line).into(),
            _ => "nothing yet",
        },
    };
    words.into()
}
