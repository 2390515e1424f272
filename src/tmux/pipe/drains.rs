//! The observer's side: one thread a session, `td-drains`, reads all of its drains.
//!
//! It gets [`Order`]s from the session's poller, woken by a byte on a socket, and sends it
//! [`DrainMessage`]s over a bounded channel. It blocks in `poll`, and on that channel while the poller is
//! behind: then the drains keep what comes. It reads a little of each drain in turn, so that one
//! that floods does not keep the others waiting. It ends when its [`Drains`] are dropped.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Once;

use crossbeam_channel::{Receiver, Select, Sender, TrySendError, bounded};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::super::sections::Nonce;
use super::command::pipe_pane;
use super::frame::{Frame, Frames};
use super::place::{self, Place};
use super::program::DrainProgram;
use super::ring::DroppedBytes;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::thread::{self, Handle, Panicked, Stop, StopGuard, is_stopped, stop_pair};

/// What is read of a drain at a time: a piece, as the drain sends it.
const READ_BYTES: usize = 64 * 1024;

/// So many bytes of a drain in one round are a flood: tmux hands on some 4 KiB at a time.
const FLOOD_BYTES: usize = 4096;

/// How long a flood is let come before it is read: about as long as a picture stands on a display.
/// Measured: a million short lines cost 110 ms of processor time so, 180 with a millisecond, 270 without.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 16_000_000,
};

/// Arrivals that wait for the poller: a megabyte at most, which is worked on in some 20 ms, so that a
/// quiet pane's line is not behind more than that.
const ARRIVALS_MAX: usize = 16;

/// Orders that wait for the thread, which takes them at once, also while it waits for the poller.
const ORDERS_MAX: usize = 1024;

/// Connections that have not said whom they drain: only our own user can connect, so that more are a
/// mistake, and are let go.
const STRANGERS_MAX: usize = 1024;

/// Which opening of a pipe something belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PipeToken(String);

/// Something that came of a drain.
#[derive(Debug)]
pub(crate) struct DrainMessage {
    pub token: PipeToken,
    pub output: DrainOutput,
}

/// What came.
#[derive(Debug)]
pub(crate) enum DrainOutput {
    /// The drain is there.
    Connected,
    /// Bytes of the pane.
    Bytes(Vec<u8>),
    /// Bytes of the pane that are missing here.
    Dropped(DroppedBytes),
    /// All that was there when [`Drains::mark`] was called has come by now.
    Mark,
    /// The pane's output has ended, or goes elsewhere: all that came by then has come here.
    Ended,
    /// The drain is gone, and with it what it had.
    Lost,
}

enum Order {
    /// A drain will come to this place.
    Expect(PipeToken, Place),
    /// It was not opened, or nothing more of it is wanted.
    Forget(PipeToken),
    /// To say when it has said what it has by now.
    Mark(PipeToken),
    /// What it has by now, and no more.
    Finish(PipeToken),
}

/// All drains of a session.
#[derive(Debug)]
pub(crate) struct Drains {
    program: DrainProgram,
    orders: Sender<Order>,
    wake: UnixStream,
    arrivals: Receiver<DrainMessage>,
    thread: Handle<()>,
    _running: StopGuard,
}

impl Drains {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no more threads or files to give.
    pub fn start(program: DrainProgram, clock: &Clock) -> Result<Self> {
        static ABANDONED: Once = Once::new();
        ABANDONED.call_once(|| place::remove_abandoned(clock.wall()));
        let (wake, woken) = UnixStream::pair()
            .and_then(|(wake, woken)| {
                wake.set_nonblocking(true)?;
                woken.set_nonblocking(true)?;
                Ok((wake, woken))
            })
            .map_err(|cause| Error::other("cannot make a pair of sockets").because(cause))?;
        let (orders, ordered) = bounded(ORDERS_MAX);
        let (arrived, arrivals) = bounded(ARRIVALS_MAX);
        let (running, stop) = stop_pair();
        let reader = Reader {
            woken,
            orders: ordered,
            arrived,
            stop,
            expected: Vec::new(),
            drains: Vec::new(),
        };
        let thread = thread::spawn("td-drains", move || reader.run())?;
        Ok(Self {
            program,
            orders,
            wake,
            arrivals,
            thread,
            _running: running,
        })
    }

    /// Prepares an opening: its token, and the tmux command for it. What becomes of it must be said
    /// by [`Drains::forget`], unless the drain comes.
    ///
    /// # Errors
    /// When no place can be made for the drain to come to.
    pub fn prepare(&self, pane: &PaneId) -> Result<(PipeToken, String)> {
        let token = PipeToken(Nonce::fresh().as_str().to_owned());
        let place = Place::new()?;
        let command = pipe_pane(
            pane.as_str(),
            self.program.path(),
            &place.socket(),
            &token.0,
        );
        self.order(Order::Expect(token.clone(), place));
        Ok((token, command))
    }

    /// Nothing will come of this opening, or what comes is not wanted.
    pub fn forget(&self, token: PipeToken) {
        self.order(Order::Forget(token));
    }

    /// Asks a drain to say when all has come that it has by now.
    pub fn mark(&self, token: PipeToken) {
        self.order(Order::Mark(token));
    }

    /// Takes what a drain has by now, until it says that it has ended.
    pub fn finish(&self, token: PipeToken) {
        self.order(Order::Finish(token));
    }

    /// Where arrivals come.
    pub fn messages(&self) -> &Receiver<DrainMessage> {
        &self.arrivals
    }

    /// Ends all of it.
    ///
    /// # Errors
    /// When the thread had panicked.
    pub fn shutdown(self) -> Result<(), Panicked> {
        let Self {
            orders,
            wake,
            arrivals,
            thread,
            _running: running,
            ..
        } = self;
        drop((running, orders, arrivals, wake));
        thread.join()
    }

    fn order(&self, order: Order) {
        // An error is the thread's end, which its arrivals tell.
        let _ = self.orders.send(order);
        // Full: it is awake.
        let _ = (&self.wake).write(&[0]);
    }
}

/// A drain that is there.
struct Drain {
    socket: UnixStream,
    frames: Frames,
    /// Whose it is, once it has said it.
    token: Option<PipeToken>,
    /// How much was read of it in the last round.
    read: usize,
}

impl Drain {
    /// Whether it is let come: it floods, and all that was there has been read.
    fn floods(&self) -> bool {
        (FLOOD_BYTES..READ_BYTES).contains(&self.read)
    }
}

struct Reader {
    woken: UnixStream,
    orders: Receiver<Order>,
    arrived: Sender<DrainMessage>,
    stop: Stop,
    expected: Vec<(PipeToken, Place)>,
    drains: Vec<Drain>,
}

/// Nobody listens any more.
struct Stopped;

impl Reader {
    fn run(mut self) {
        let mut buffer = vec![0; READ_BYTES];
        while !is_stopped(&self.stop) {
            let ready = self.pause().and_then(|()| self.wait());
            let ready = match ready {
                Ok(ready) => ready,
                Err(cause) => return log::error!("cannot wait for drains: {cause}"),
            };
            self.take_orders();
            // New ones come behind those of which it is known whether they are ready.
            let known = self.drains.len().min(ready.drains.len());
            let mut ended = Vec::new();
            self.drains.iter_mut().for_each(|drain| drain.read = 0);
            for at in (0..known).filter(|at| ready.drains[*at]) {
                match self.read(at, &mut buffer) {
                    Ok(Some(bytes)) => self.drains[at].read = bytes,
                    Ok(None) => ended.push(at),
                    Err(Stopped) => return,
                }
            }
            for at in ended.into_iter().rev() {
                self.drains.remove(at);
            }
            if ready.places {
                self.accept();
            }
        }
    }

    /// Lets some more come of those that flood, so that thousands of small pieces are not each worked on.
    /// An order ends the pause, and so does another pane that prints.
    fn pause(&self) -> io::Result<()> {
        if !self.drains.iter().any(Drain::floods) {
            return Ok(());
        }
        let of = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = vec![of(self.woken.as_fd())];
        let others = self.drains.iter().filter(|drain| !drain.floods());
        fds.extend(others.map(|drain| of(drain.socket.as_fd())));
        match poll(&mut fds, Some(&PAUSE)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let of = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = vec![of(self.woken.as_fd())];
        fds.extend(self.drains.iter().map(|drain| of(drain.socket.as_fd())));
        let places = self.expected.iter();
        fds.extend(places.map(|(_, place)| of(place.listener.as_fd())));
        loop {
            match poll(&mut fds, None) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (drains, places) = fds[1..].split_at(self.drains.len());
        Ok(Ready {
            drains: drains.iter().map(is_ready).collect(),
            places: places.iter().any(is_ready),
        })
    }

    fn take_orders(&mut self) {
        // However many orders there are, one look at them is enough.
        let mut bytes = [0; 256];
        while matches!((&self.woken).read(&mut bytes), Ok(read) if read > 0) {}
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Expect(token, place) => self.expected.push((token, place)),
                Order::Forget(token) => {
                    self.expected.retain(|(expected, _)| *expected != token);
                    self.end(&token, Shutdown::Both);
                }
                Order::Mark(token) => {
                    if let Some(mut socket) = self.socket(&token) {
                        // One that is gone, or does not read, is told of otherwise.
                        let _ = socket.write(&[0]);
                    }
                }
                Order::Finish(token) => self.end(&token, Shutdown::Write),
            }
        }
    }

    fn end(&self, token: &PipeToken, how: Shutdown) {
        if let Some(socket) = self.socket(token) {
            // One that is gone already needs no end.
            let _ = socket.shutdown(how);
        }
    }

    fn socket(&self, token: &PipeToken) -> Option<&UnixStream> {
        let mut drains = self.drains.iter();
        let drain = drains.find(|drain| drain.token.as_ref() == Some(token))?;
        Some(&drain.socket)
    }

    fn accept(&mut self) {
        let mut strangers = self
            .drains
            .iter()
            .filter(|drain| drain.token.is_none())
            .count();
        let drains = &mut self.drains;
        self.expected.retain(|(_, place)| {
            loop {
                match place.listener.accept() {
                    Ok((socket, _)) if strangers < STRANGERS_MAX && set_up(&socket) => {
                        strangers += 1;
                        drains.push(Drain {
                            socket,
                            frames: Frames::default(),
                            token: None,
                            read: 0,
                        });
                    }
                    Ok(_) => {}
                    Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return true,
                    Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                    Err(cause) => {
                        // No descriptor is left, most likely: the drain finds nobody and ends, and
                        // its pane is polled.
                        log::warn!("a drain cannot be heard: {cause}");
                        return false;
                    }
                }
            }
        });
    }

    /// Reads a little of a drain; how much, or `None` when there is no more to come.
    fn read(&mut self, at: usize, buffer: &mut [u8]) -> Result<Option<usize>, Stopped> {
        let read = match (&self.drains[at].socket).read(buffer) {
            Ok(read) => read,
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(Some(0)),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => return Ok(Some(0)),
            Err(_) => 0,
        };
        if read == 0 {
            return self.lost(at);
        }
        self.drains[at].frames.push(&buffer[..read]);
        // Many small pieces are worked on as one.
        let mut bytes = Vec::new();
        loop {
            let frame = self.drains[at].frames.next();
            if let (Ok(Some(Frame::Bytes(more))), Some(_)) = (&frame, &self.drains[at].token) {
                bytes.extend_from_slice(more);
                continue;
            }
            if !bytes.is_empty() {
                self.tell(at, DrainOutput::Bytes(std::mem::take(&mut bytes)))?;
            }
            let frame = match frame {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(Some(read)),
                Err(wrong) => {
                    log::warn!("{wrong}");
                    return self.lost(at);
                }
            };
            let what = match (frame, &self.drains[at].token) {
                (Frame::Hello(token), None) => {
                    let token = PipeToken(token);
                    let place = self.expected.iter().position(|(known, _)| *known == token);
                    let Some(place) = place else {
                        return Ok(None);
                    };
                    self.expected.remove(place);
                    self.drains[at].token = Some(token);
                    DrainOutput::Connected
                }
                (Frame::Dropped(dropped), Some(_)) => DrainOutput::Dropped(dropped),
                (Frame::Mark, Some(_)) => DrainOutput::Mark,
                (Frame::End, Some(_)) => {
                    self.tell(at, DrainOutput::Ended)?;
                    return Ok(None);
                }
                _ => {
                    log::warn!("a drain said something out of place");
                    return self.lost(at);
                }
            };
            self.tell(at, what)?;
        }
    }

    fn lost(&mut self, at: usize) -> Result<Option<usize>, Stopped> {
        if self.drains[at].token.is_some() {
            self.tell(at, DrainOutput::Lost)?;
        }
        Ok(None)
    }

    /// Tells the poller, when it has room. It may give orders meanwhile: neither waits for the other.
    fn tell(&mut self, at: usize, output: DrainOutput) -> Result<(), Stopped> {
        let Some(token) = self.drains[at].token.clone() else {
            return Ok(());
        };
        let mut arrival = DrainMessage { token, output };
        loop {
            arrival = match self.arrived.try_send(arrival) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(_)) => return Err(Stopped),
                Err(TrySendError::Full(arrival)) => arrival,
            };
            let mut waiting = Select::new();
            let stop = waiting.recv(&self.stop);
            waiting.recv(&self.orders);
            waiting.send(&self.arrived);
            if waiting.ready() == stop {
                return Err(Stopped);
            }
            self.take_orders();
        }
    }
}

/// Whether a connection can be read without waiting for it.
fn set_up(socket: &UnixStream) -> bool {
    socket.set_nonblocking(true).is_ok()
}

struct Ready {
    drains: Vec<bool>,
    places: bool,
}
