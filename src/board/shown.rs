//! Texts of events as faces may show them (pure).

use std::borrow::Cow;

use crate::escapes::without_escapes;
use crate::event::{Dialogue, DialogueChoice, ReportedChild};

/// Returns a dialogue as faces may show it.
pub(super) fn shown(dialogue: &Dialogue) -> Dialogue {
    let choices = dialogue.choices.iter().map(|choice| DialogueChoice {
        key: plain(&choice.key).into_owned(),
        label: plain(&choice.label).into_owned(),
        selected: choice.selected,
    });
    Dialogue {
        text: plain(&dialogue.text).into_owned(),
        choices: choices.collect(),
        again: false,
    }
}

/// Returns what is reported of a child as faces may show it.
pub(super) fn shown_child(child: &ReportedChild) -> ReportedChild {
    let shown = |text: &Option<String>| text.as_deref().map(|text| plain(text).into_owned());
    ReportedChild {
        id: plain(&child.id).into_owned(),
        state: child.state.clone(),
        title: shown(&child.title),
        asks: shown(&child.asks),
        progress: child.progress,
    }
}

/// Returns a text without control sequences and without control characters other than tabs and line feeds.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    // A sequence that a line leaves open must not hide the lines after it.
    let lines = text
        .split('\n')
        .map(|line| without_escapes(line).replace(|c: char| c.is_control() && c != '\t', ""));
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}
