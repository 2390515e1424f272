//! Defines the views of a row, and their keys (pure).

/// A view of the selected row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ViewKind {
    Output,
    Logs,
    Screen,
    Timeline,
    Events,
}

impl ViewKind {
    pub const ALL: [Self; 5] = [
        Self::Output,
        Self::Logs,
        Self::Screen,
        Self::Timeline,
        Self::Events,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Logs => "logs",
            Self::Screen => "screen",
            Self::Timeline => "timeline",
            Self::Events => "events",
        }
    }

    /// Returns true if `key` shows the view: the first letter of its name.
    pub fn has_key(self, key: char) -> bool {
        self.name().starts_with(key)
    }

    /// Returns true if the view shows lines of events.
    pub fn has_lines(self) -> bool {
        matches!(self, Self::Output | Self::Logs | Self::Events)
    }
}
