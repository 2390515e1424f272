//! The chapters of the guide, which are compiled into the program.

/// A chapter: its name, a one-line description, and its text.
pub(super) struct Chapter {
    pub name: &'static str,
    pub about: &'static str,
    pub text: &'static str,
}

macro_rules! chapters {
    ($($name:literal: $about:literal,)*) => {
        &[$(Chapter {
            name: $name,
            about: $about,
            text: include_str!(concat!("../guide/", $name, ".md")),
        },)*]
    };
}

/// The chapters in reading order; `src/guide/mod.rs` lists the same chapters.
pub(super) const CHAPTERS: &[Chapter] = chapters! {
    "watching": "show tmux panes, and run commands at their events",
    "streaming": "stream or poll: how panes are observed",
    "tui": "the terminal UI: views, keys, answers",
    "waiting": "wait for a line, an end, silence or a signal",
    "running": "run a command and keep what it prints",
    "kernels": "run code on Jupyter kernels, and listen to them",
    "loops": "repeat an agent until a check passes",
    "agents": "agents in panes, background agents, states, hooks",
    "history": "runs: read, search, replay, export, prune",
    "events": "the types of events and their fields",
    "secrets": "what is redacted, and your own rules",
    "limits": "what is not guaranteed, and the cargo features",
    "library": "use td-observe in a Rust program",
    "performance": "what is measured, and how to reproduce it",
};

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CHAPTERS.iter().map(|chapter| chapter.name)
}

/// Returns the names and texts of the chapters.
#[cfg(test)]
pub(super) fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    CHAPTERS.iter().map(|chapter| (chapter.name, chapter.text))
}
