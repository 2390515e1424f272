//! The faults, and how each happens.

use std::time::Duration;

use rustix::process::{Signal, kill_process};

use crate::pause;
use crate::support::Dice;
use crate::world::World;

/// The most panes and sessions of a server.
const PANES_MAX: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    ObserverIsKilled,
    ObserverIsStopped,
    ObserverRestarts,
    ServerIsKilled,
    ServerIsStopped,
    SessionBegins,
    SessionEnds,
    SessionIsRenamed,
    PaneBegins,
    PaneEnds,
    PaneIsRespawned,
    PaneMoves,
    WindowIsResized,
    HistoryIsCleared,
    PipeIsTaken,
    DiskIsFull,
    ConnectionsAreCut,
    ClockMoves,
}

use Fault::*;

/// Each as often as it is named.
const ALL: &[Fault] = &[
    ObserverIsKilled,
    ObserverIsKilled,
    ObserverIsStopped,
    ObserverIsStopped,
    ObserverRestarts,
    ServerIsKilled,
    ServerIsStopped,
    ServerIsStopped,
    SessionBegins,
    SessionBegins,
    SessionBegins,
    SessionBegins,
    SessionEnds,
    SessionEnds,
    SessionIsRenamed,
    SessionIsRenamed,
    PaneBegins,
    PaneBegins,
    PaneBegins,
    PaneEnds,
    PaneEnds,
    PaneIsRespawned,
    PaneIsRespawned,
    PaneMoves,
    PaneMoves,
    WindowIsResized,
    WindowIsResized,
    WindowIsResized,
    HistoryIsCleared,
    PipeIsTaken,
    DiskIsFull,
    ConnectionsAreCut,
    ConnectionsAreCut,
    ClockMoves,
    ClockMoves,
];

fn one<'a>(of: &'a [String], dice: &mut Dice) -> Option<&'a str> {
    let at = dice.roll(of.len().max(1) as u64) as usize;
    of.get(at).map(String::as_str)
}

impl Fault {
    pub fn any(dice: &mut Dice) -> Self {
        ALL[dice.roll(ALL.len() as u64) as usize]
    }

    /// Lets it happen; returns false if there is nothing to which it could.
    pub fn happens(self, world: &mut World, dice: &mut Dice) -> bool {
        match self {
            ObserverIsKilled => {
                let was_there = world.kill_observer();
                pause(Duration::from_millis(dice.roll(1500)));
                world.start_observer();
                was_there
            }
            ObserverIsStopped => {
                let is_stopped = world.signal_observer(Signal::STOP);
                pause(Duration::from_millis(dice.roll(2000)));
                world.signal_observer(Signal::CONT);
                is_stopped
            }
            ObserverRestarts => {
                world.stop_observer();
                pause(Duration::from_millis(dice.roll(1000)));
                world.start_observer();
                true
            }
            DiskIsFull => {
                let Some(filling) = world.fill_disk() else {
                    return false;
                };
                pause(Duration::from_millis(dice.roll(3000)));
                std::fs::remove_file(filling).is_ok()
            }
            ConnectionsAreCut => {
                world.watch_again();
                true
            }
            ClockMoves => world.set_clock(dice.roll(7200) as i64 - 3600),
            _ => self.happens_to_server(world, dice),
        }
    }

    fn happens_to_server(self, world: &mut World, dice: &mut Dice) -> bool {
        let server = dice.roll(2) as usize;
        if self == ServerIsKilled {
            let Some(pid) = world.server_pid(server) else {
                return false;
            };
            world.servers[server].will_be_killed();
            let is_killed = kill_process(pid, Signal::KILL).is_ok();
            world.new_session(server, dice);
            return is_killed;
        }
        if self == ServerIsStopped {
            let Some(pid) = world.server_pid(server) else {
                return false;
            };
            let is_stopped = kill_process(pid, Signal::STOP).is_ok();
            pause(Duration::from_millis(dice.roll(3000)));
            return kill_process(pid, Signal::CONT).is_ok() && is_stopped;
        }
        let (panes, sessions) = (world.panes(server), world.sessions(server));
        if self == SessionBegins && panes.len() < PANES_MAX || sessions.is_empty() {
            world.new_session(server, dice);
            return true;
        }
        let (Some(pane), Some(session)) = (one(&panes, dice), one(&sessions, dice)) else {
            return false;
        };
        let program = world.program(dice);
        let number = dice.roll(1000).to_string();
        let done = match self {
            SessionEnds if sessions.len() > 1 => {
                world.tmux(server, &["kill-session", "-t", session])
            }
            SessionIsRenamed => {
                let name = format!("renamed{number}");
                world.tmux(server, &["rename-session", "-t", session, &name])
            }
            PaneBegins if panes.len() < PANES_MAX => {
                let how = ["split-window", "new-window"][dice.roll(2) as usize];
                world.tmux(server, &[how, "-d", "-t", session, &program])
            }
            PaneEnds if panes.len() > 1 => world.tmux(server, &["kill-pane", "-t", pane]),
            PaneIsRespawned => world.tmux(server, &["respawn-pane", "-k", "-t", pane, &program]),
            PaneMoves => {
                let other = one(&panes, dice).unwrap_or(pane);
                let how = ["join-pane", "swap-pane"][dice.roll(2) as usize];
                world.tmux(server, &[how, "-d", "-s", pane, "-t", other])
            }
            WindowIsResized => {
                let (width, height) = (20 + dice.roll(180), 5 + dice.roll(60));
                let (width, height) = (width.to_string(), height.to_string());
                world.tmux(
                    server,
                    &["resize-window", "-t", pane, "-x", &width, "-y", &height],
                )
            }
            HistoryIsCleared => world.tmux(server, &["clear-history", "-t", pane]),
            PipeIsTaken => {
                world.tmux(server, &["pipe-pane", "-t", pane, "cat > /dev/null"]);
                pause(Duration::from_millis(dice.roll(1000)));
                world.tmux(server, &["pipe-pane", "-t", pane])
            }
            _ => None,
        };
        done.is_some()
    }
}
