//! Questions to the gateway and their answers: the messages, and waiting that cannot hang.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use super::capture::{PaneView, SeamShot, SeamView};
use super::depth::Margin;
use super::id::SessionId;
use super::listing::{Listing, ServerIdentity};
use super::seen::{Proof, Seen};
use super::state::PaneState;
use super::tempo::Rhythm;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::thread::Stop;
use crate::track::{Death, Look};

/// What a poller wants to know of its session, and when.
#[derive(Clone, Debug, Default)]
pub struct SessionLook {
    /// The session.
    pub session_id: SessionId,
    /// The server in which it was found: a restarted one gives the same ids to other sessions.
    pub server: Option<ServerIdentity>,
    /// What it is called, as far as is known: another name is news, and told within a second.
    /// Without it, names are asked for anew.
    pub name: Option<String>,
    /// Its panes, as far as they are known. A pane that the session owns and that is not here is
    /// new.
    pub wants: HashMap<PaneId, Want>,
    /// What becomes of new panes.
    pub newcomers: Newcomers,
    /// When the answer is wanted.
    pub when: When,
}

/// When a question is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// When there is something to tell. Until then it is looked for in this rhythm.
    News(Rhythm),
}

/// What a poller wants to know of a pane.
#[derive(Clone, Debug)]
pub enum Want {
    /// Nothing but that it is there.
    Leave,
    /// What it shows, once that has changed.
    Look(Wish),
    /// That it is there, once its shape is another.
    Shape(Shape),
    /// What it shows now, and all that it takes to go on from there with its bytes.
    Seam(SeamWish),
}

/// How a poller wants a pane to be looked at. Where a full-screen program is listed, the normal
/// screen behind it is looked at, too.
#[derive(Clone, Debug)]
pub struct Wish {
    /// What it remembers of its last look; without it, the look is taken in any case.
    pub seen: Option<Seen>,
    /// How much more of the history than its growth.
    pub margin: Margin,
    /// From when on, in the gateway's time, it is news that nothing has changed.
    pub settles: Option<Duration>,
    /// It is not looked at before the listing shows that it has changed: another size, cursor or
    /// history, or, where its window has no other pane, a later second of activity.
    pub rests: bool,
}

/// What of a pane its bytes do not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The process that tmux started in it.
    pub pid: u32,
    /// How that ended, where it has.
    pub dead: Option<Death>,
}

/// How a poller wants to go on with a pane's bytes.
#[derive(Clone, Debug)]
pub struct SeamWish {
    /// How much of the history is wanted.
    pub margin: Margin,
    /// What it remembers of its last look, which tells by how much the history has grown.
    pub seen: Option<Seen>,
    /// What opens the pane's pipe, where there is none.
    pub seam: SeamShot,
}

/// What becomes of panes that a session has and that are not known yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Newcomers {
    /// They are looked at, with the depth of a baseline, saved screen included.
    #[default]
    Look,
    /// It is told that they are there.
    Tell,
}

/// What became of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionAnswer {
    /// There is no such session in this server (any more).
    Gone {
        /// As below.
        left: HashMap<PaneId, Left>,
    },
    /// It is another server.
    OtherServer,
    /// It is there.
    There {
        /// Its name now.
        name: String,
        /// When it was made, in seconds since 1970.
        created: i64,
        /// The panes that it owns now; others are gone, or another session's.
        panes: Vec<PaneAnswer>,
        /// What became of panes that were wanted and that it owns no more.
        left: HashMap<PaneId, Left>,
    },
}

/// What became of a pane that left its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// When it showed for certain last what was seen of it, if that was not to be looked at anew.
    pub proof: Option<Proof>,
    /// It is there, and another session's.
    pub moved: bool,
}

/// What became of a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaneAnswer {
    /// It showed what was seen of it.
    Still(PaneState, Proof),
    /// It is there. What it shows was not asked for, or cannot be told yet.
    There(PaneState),
    /// It was looked at.
    Look {
        /// What tmux knew of it, in the same instant.
        state: PaneState,
        /// What it showed.
        look: Box<Look>,
        /// What to give back with the next wish.
        seen: Box<Seen>,
        /// What makes the look a seam, where that was wanted.
        seam: Option<Box<SeamView>>,
    },
}

impl PaneAnswer {
    /// The pane's state.
    pub fn state(&self) -> &PaneState {
        match self {
            Self::Still(state, _) | Self::There(state) | Self::Look { state, .. } => state,
        }
    }

    pub(super) fn look(listed: &PaneState, mut view: PaneView, proof: Proof) -> Self {
        view.state.keep_pid(listed.pid);
        view.state.title.clone_from(&listed.title);
        (view.look.pid, view.look.dead) = (view.state.pid, view.state.dead);
        let seen = Box::new(Seen::of(&view, proof));
        // Through which of its windows a linked pane was seen is chance: the listing's names and
        // places are the owner's.
        let PaneView {
            state, look, seam, ..
        } = view;
        let state = PaneState {
            session_id: listed.session_id,
            session_name: listed.session_name.clone(),
            session_created: listed.session_created,
            window_id: listed.window_id,
            window_index: listed.window_index,
            window_name: listed.window_name.clone(),
            window_active: listed.window_active,
            command: listed.command.clone(),
            owned: true,
            ..state
        };
        Self::Look {
            state,
            look: Box::new(look),
            seen,
            seam: seam.map(Box::new),
        }
    }
}

/// Whether a listing names the programs in the foreground of the panes. The server reads them from
/// the kernel, one pane after the other: that takes as long as all the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Programs {
    /// [`PaneState::command`] is empty, unless another asker wanted it, and all of it may be a
    /// fifth of a second old.
    #[default]
    LeftOut,
    /// It does.
    Named,
}

/// What is asked for with a listing.
#[derive(Clone, Debug, Default)]
pub(super) struct ListWish {
    pub programs: Programs,
    /// A listing that was taken before does not do.
    pub is_fresh: bool,
    /// It is known already: there is an answer when it does not hold any more.
    pub known: Option<Arc<Listing>>,
}

/// What the gateway's thread is sent.
#[derive(Debug)]
pub(super) enum Message {
    /// Everything that the server holds.
    List(Asker<Arc<Listing>>, ListWish),
    /// A look at the panes of one session.
    Look(Box<SessionLook>, Asker<SessionAnswer>),
    /// Panics, to see what becomes of the askers.
    #[cfg(test)]
    Panic,
}

impl Message {
    /// Answers with a failure.
    pub(super) fn fail(self, error: &Error) {
        match self {
            Self::List(asker, _) => asker.answer(Err(again(error))),
            Self::Look(_, asker) => asker.answer(Err(again(error))),
            #[cfg(test)]
            Self::Panic => {}
        }
    }
}

/// One failure, told to several askers: questions and text, without the cause.
pub(super) fn again(error: &Error) -> Error {
    let text = error.to_string();
    if error.is_timeout() {
        Error::timeout(text)
    } else if error.is_gone() {
        Error::gone(text)
    } else if error.is_missing_program() {
        Error::missing(text)
    } else if error.is_invalid_input() {
        Error::invalid(text)
    } else {
        Error::other(text)
    }
}

/// Where an answer goes.
#[derive(Debug)]
pub(super) struct Asker<T> {
    reply: Sender<Result<T>>,
    waiting: Weak<()>,
}

impl<T> Asker<T> {
    pub(super) fn is_there(&self) -> bool {
        self.waiting.strong_count() > 0
    }

    pub(super) fn answer(self, answer: Result<T>) {
        // There is room for the one answer; an asker that has gone away does not want it.
        let _ = self.reply.try_send(answer);
    }
}

/// A question that was asked. Dropped, it is taken back.
#[derive(Debug)]
#[must_use = "an answer that nobody waits for is not given"]
pub struct Pending<T> {
    reply: Receiver<Result<T>>,
    /// Closed when the gateway's thread has ended, in whatever way.
    ended: Stop,
    _waiting: Arc<()>,
}

impl<T> Pending<T> {
    /// A question and where its answer goes.
    pub(super) fn new(ended: Stop) -> (Asker<T>, Self) {
        // One question, one answer.
        let (reply, answer) = bounded(1);
        let waiting = Arc::new(());
        let asker = Asker {
            reply,
            waiting: Arc::downgrade(&waiting),
        };
        (
            asker,
            Self {
                reply: answer,
                ended,
                _waiting: waiting,
            },
        )
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// `is_gone()` without a server or when the gateway has ended; `is_timeout()` when the server
    /// is hung.
    pub fn wait(self) -> Result<T> {
        let never: Receiver<Infallible> = crossbeam_channel::never();
        self.wait_or_stop(&never).unwrap_or_else(|| Err(ended()))
    }

    /// Where the answer comes, for those who wait for other things too. Once it is closed there
    /// will be none; see [`Pending::wait`] for what the gateway's end means then.
    pub(crate) fn answers(&self) -> &Receiver<Result<T>> {
        &self.reply
    }

    /// Waits for the answer or, giving `None`, until `stop` is closed.
    pub(crate) fn wait_or_stop(self, stop: &Stop) -> Option<Result<T>> {
        // The answer comes first: it may have been given just before the end.
        select_biased! {
            recv(self.reply) -> answer => Some(answer.unwrap_or_else(|_| Err(ended()))),
            recv(stop) -> _ => None,
            recv(self.ended) -> _ => Some(self.reply.try_recv().unwrap_or_else(|_| Err(ended()))),
        }
    }
}

impl<T> Pending<T> {
    /// Waits for the answer or, giving `None`, until the time has come.
    pub(crate) fn wait_or_time(self, deadline: &Receiver<Instant>) -> Option<Result<T>> {
        select_biased! {
            recv(self.reply) -> answer => Some(answer.unwrap_or_else(|_| Err(ended()))),
            recv(deadline) -> _ => None,
            recv(self.ended) -> _ => Some(self.reply.try_recv().unwrap_or_else(|_| Err(ended()))),
        }
    }
}

pub(super) fn ended() -> Error {
    Error::gone("the tmux gateway has ended")
}
