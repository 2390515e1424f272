//! The states, reasons and kinds of evidence that appear in events.

use serde::Deserialize;

use super::open_enum::named_values;

named_values! {
    /// The reason why a session is no longer observed, in [`TdEvent::SessionEnded`](super::TdEvent::SessionEnded).
    SessionEndReason {
        /// The session has closed.
        Closed = "closed",
        /// The session's tmux server has ended.
        ServerGone = "server_gone",
        /// The observer has stopped; the session continues.
        Detached = "detached",
    }

    /// The reason why a pane is no longer observed, in [`TdEvent::PaneClosed`](super::TdEvent::PaneClosed).
    PaneCloseReason {
        /// The pane has closed, or its program has ended.
        Closed = "closed",
        /// The pane now belongs to another session.
        Moved = "moved",
    }

    /// The viewer of a pane, in [`TdEvent::PaneSeen`](super::TdEvent::PaneSeen).
    PaneViewer {
        /// A client of the tmux server, whose current window contains the pane.
        Client = "client",
        /// A face of this program, which showed the pane's output.
        Face = "face",
    }

    /// The reason why a pane's output is complete up to here, in
    /// [`TdEvent::OutputUpdate`](super::TdEvent::OutputUpdate).
    CompletionReason {
        /// The pane's program has ended.
        Exit = "exit",
        /// An agent has printed the marker of a turn's end.
        Turn = "turn",
        /// An agent's turn seems to have ended: its screen no longer changes, and no marker was printed.
        Inferred = "inferred",
    }

    /// The reason why printed lines could not be observed, in
    /// [`TdEvent::OutputGap`](super::TdEvent::OutputGap).
    GapReason {
        /// tmux removed the lines from a full history before they were captured.
        HistoryTrimmed = "history_trimmed",
        /// The capture fits several explanations; lines may be missing.
        Ambiguous = "ambiguous",
        /// The lines arrived faster than they could be processed, and were only counted.
        Dropped = "dropped",
        /// The pane was not captured in time.
        Timeout = "timeout",
        /// The screen or the history was erased, perhaps with lines that were not captured.
        Cleared = "cleared",
        /// The pane's width has changed, and its text no longer matches the previous capture.
        Resized = "resized",
        /// The lines exceed the size of one capture.
        Truncated = "truncated",
        /// No observer ran.
        ObserverAbsent = "observer_absent",
    }

    /// The certainty that lines are missing at an [`TdEvent::OutputGap`](super::TdEvent::OutputGap).
    GapEvidence(IS_SEARCHED: bool = false, ABSENT: Option<Self> = Some(Self::Possible)) {
        /// Bytes or lines are unaccounted for.
        Confirmed = "confirmed",
        /// A loss cannot be excluded, although nothing indicates one. Also the value for logs written before
        /// this field existed.
        Possible = "possible",
    }

    /// The stream to which a child process printed, in
    /// [`TdEvent::ExecutionOutput`](super::TdEvent::ExecutionOutput).
    OutputStream {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }

    /// The evidence for the end of a turn, in [`TdEvent::TurnCompleted`](super::TdEvent::TurnCompleted).
    TurnEvidence {
        /// The agent printed a marker; events leave the field out instead.
        Marker = "marker",
        /// The agent's own transcript ends the turn.
        Transcript = "transcript",
        /// The agent's status file reports the end.
        Status = "status",
        /// The agent's screen shows the end.
        Screen = "screen",
        /// The agent is inactive, and no source states that the turn has ended.
        Inferred = "inferred",
    }

    /// The state of an agent, in [`TdEvent::AgentState`](super::TdEvent::AgentState).
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    AgentState {
        /// The agent works.
        Working = "working",
        /// The agent asks a human for permission, an answer, or a decision on a plan.
        Waiting = "waiting",
        /// The agent accepts input, and no work of it was observed.
        Idle = "idle",
        /// The screen shows that a turn has ended.
        Done = "done",
        /// The turn has ended in an error.
        Error = "error",
        /// A usage limit is reached.
        Limited = "limited",
    }

    /// The certainty of an agent's state, in [`TdEvent::AgentState`](super::TdEvent::AgentState).
    StateEvidence {
        /// The source states the state explicitly.
        Confirmed = "confirmed",
        /// The state is inferred from the source's content.
        Inferred = "inferred",
    }

    /// The source of an agent's state, in [`TdEvent::AgentState`](super::TdEvent::AgentState); the
    /// first has the highest authority.
    #[derive(PartialOrd, Ord)]
    StateSource {
        /// The agent's status file.
        StatusFile = "status_file",
        /// The agent's transcript of the conversation.
        Transcript = "transcript",
        /// The title that the agent gives its pane.
        Title = "title",
        /// A desktop notification that the agent sends through its terminal.
        Notification = "notification",
        /// A hook that the agent runs.
        Hook = "hook",
        /// The agent's screen, read by rules.
        Screen = "screen",
    }
}
