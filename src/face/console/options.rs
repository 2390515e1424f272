//! The console's options (pure).

/// The appearance of the console.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConsoleOptions {
    pub coloured: bool,
    /// Pads labels to equal width for people; output for programs has no padding.
    pub aligned: bool,
    /// Shows the opening and closing of panes, the decoration of agents' screens, and possible gaps.
    pub verbose: bool,
    /// Begins each row with the local time of its event.
    pub has_timestamps: bool,
}
