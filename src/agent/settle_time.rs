//! How long the claims of sources must hold before they count, each time with what was measured of real agents (pure).

use std::time::Duration;

use crate::event::StateSource;

/// The time for which a claim must hold before it counts without the source that may confirm or
/// correct it.
pub(super) fn settle_time(source: StateSource) -> Duration {
    Duration::from_millis(match source {
        StateSource::Process => 0,
        // An agent writes its transcript about 0.1 s after its status (0.03 to 0.3 s on Claude Code
        // 2.1.330).
        StateSource::StatusFile => 400,
        // An agent may write and draw the words of what it reports later. Codex 0.171 draws a dialogue 0.33 s after its
        // report, and then the dialogue settles.
        StateSource::Report => 1_000,
        // An answer that no record and no other source confirms as the end of the turn.
        StateSource::Transcript => 2_000,
        // The transcript follows. Of the agents without a status file, Qwen Code 0.24 took longest:
        // 1.0 s on a busy machine.
        StateSource::Title | StateSource::Notification | StateSource::Hook => 1_300,
        // Between two steps, agents redraw their screens, and briefly show an empty box; dialogues
        // are drawn in steps. Seven real agents show none of this for longer.
        StateSource::Screen => 300,
    })
}

/// The time for which an idle status must hold long after the end of a turn was written. When a background agent sends
/// Claude Code 2.1.332 on, it is idle for 5 ms, and a real rest is reported within half a second.
pub(super) const REST_BEGINS: Duration = Duration::from_millis(150);

/// The time for which a status file must say that the agent rests while its screen shows work. Between two prompts of which
/// one was typed meanwhile, Claude Code 2.1.332 rests for up to 0.3 s on a busy machine, and goes on drawing work. A status
/// is reported within half a second.
pub(super) const REST_DRAWN: Duration = Duration::from_millis(350);

/// The time that an idle screen must persist after a turn. opencode 1.18 shows an empty box for up
/// to 0.5 s before it draws the indicator of the next turn.
pub(super) const IDLE_AFTER_DONE: Duration = Duration::from_secs(1);

/// The time for which the screen may still show work after the end of a turn is written. A prompt that was typed
/// meanwhile begins the next turn at once: Copilot CLI 1.0.102 writes it up to 0.4 s later, and its screen shows no end
/// between the two; without one, the screen shows the end within 0.9 s on a busy machine.
pub(super) const END_SHOWN: Duration = Duration::from_secs(1);

/// The time for which a program must report that it works, or show it in its title. Codex 0.171 reports work when it
/// starts, for 15 ms and, on a busy machine, 58 ms. The title of Gemini CLI 0.61 shows it for 23 to 63 ms while a request
/// is refused, and during a command of the user. After a permission is denied, Codex works for up to 50 ms.
pub(super) const WORK_BEGINS: Duration = Duration::from_millis(100);

/// The shortest time for which a row works of which the agent's screen shows none. Codex 0.171 hides its status row while it
/// answers: a row worked for 0.1 to 0.35 s, which nobody had seen.
pub(super) const UNSEEN_WORK: Duration = Duration::from_millis(500);

/// The time for which a status file must say that the agent works while its screen shows no work. Claude Code 2.1.332 draws
/// it within 10 ms, which reach us within 0.1 s; a request that is refused at once keeps it busy for 0.1 s, undrawn.
pub(super) const WORK_DRAWN: Duration = Duration::from_millis(200);

/// The sources whose work must hold for [`WORK_BEGINS`]. A screen's has settled; files and hooks state facts.
pub(super) const MOMENTARY: [StateSource; 2] = [StateSource::Report, StateSource::Title];
