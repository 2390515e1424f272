//! The client of a kernel: connects to it or starts it, runs code, interrupts, restarts and ends it, and returns
//! the complete result.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{never, select_biased};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::cell::{
    Cell, CellListener, CellOutput, CellStatus, CellStep, CompletenessContent, DiscardedOutput,
};
use super::connection::ConnectionInfo;
use super::kernelspec::{InterruptMode, KernelSpec};
use super::liveness::{MissedInterrupt, Readiness, prompt_output, silent};
use super::process::{KernelStart, prepare_start, random_digits, remove_connection_file};
use super::protocol::{Channel, Message, Signer, request_frames};
use super::queues::{
    FeedReceiver, Incoming, MissedOutputs, Order, Orders, WAITING_BYTES_MAX, feed, orders,
};
use super::sockets::{Sockets, SocketsOptions};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{OutputStream, Verification};
use crate::process::TextBatch;
use crate::text::first_bytes;
use crate::thread::{self, Handle, Stop, is_stopped};

/// The time to wait for the next message of a cell after the reply or the idle state has arrived.
const LAST_OUTPUTS: Duration = Duration::from_secs(5);

/// The time in which a kernel that is not busy judges code.
const VERIFY_WITHIN: Duration = Duration::from_millis(300);

/// The time that an interrupted cell has to end when the engine stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// The stage of the connection to a kernel, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionStage {
    Connecting,
    Connected,
    /// The first request was answered, and outputs arrive.
    Ready,
    /// The kernel's streams are set to send output promptly, where it supports that.
    Prompt,
}

/// A kernel of Jupyter.
///
/// ```no_run
/// use td_observe::kernel::{Kernel, KernelSpec};
///
/// # fn main() -> td_observe::Result<()> {
/// let mut kernel = Kernel::start(&KernelSpec::find("python3")?)?;
/// let result = kernel.execute("for i in range(3): print(i)", |stream, text| {
///     print!("[{}] {text}", stream.as_str());
/// })?;
/// assert_eq!(result.stdout, "0\n1\n2\n");
/// # Ok(())
/// # }
/// ```
///
/// Before the first code runs in a Python kernel, its streams are set to send text after 20 ms instead of 200
/// ms. This also applies to a kernel that another program started. Dropping the value ends the kernel only if
/// this program started it.
pub struct Kernel {
    feed: FeedReceiver,
    control: KernelControl,
    thread: Option<Handle<()>>,
    pub(super) clock: Clock,
    /// Closed when the caller must stop.
    stop: Stop,
    stage: ConnectionStage,
    /// True if the kernel runs Python. Set once the kernel is ready.
    is_python: bool,
    /// True while the kernel has not answered its last heartbeat.
    is_silent: bool,
    /// The shortest interval between two calls of an output callback.
    pub(super) interval: Duration,
    /// The most bytes of each stream that a result keeps.
    pub(super) collected_bytes: usize,
}

impl Kernel {
    /// Connects to a running kernel.
    ///
    /// # Errors
    /// `is_gone()` if the kernel does not listen; protocol errors, such as an encrypted socket.
    pub fn connect(info: &ConnectionInfo) -> Result<Self> {
        Self::open(info, None, Clock::system(), never())
    }

    /// Starts a kernel on this host and connects to it.
    ///
    /// # Errors
    /// If the program cannot be started, or ends before it answers.
    pub fn start(spec: &KernelSpec) -> Result<Self> {
        Self::launch(spec, Clock::system(), never())
    }

    pub(super) fn launch(spec: &KernelSpec, clock: Clock, stop: Stop) -> Result<Self> {
        let (info, start) = prepare_start(spec)?;
        Self::open(&info, Some(start), clock, stop)
    }

    /// Connects to a kernel. All waits end when `stop` is closed.
    pub(super) fn open(
        info: &ConnectionInfo,
        start: Option<KernelStart>,
        clock: Clock,
        stop: Stop,
    ) -> Result<Self> {
        let signer = Signer::new(info.key.as_bytes());
        let session = Session::new(signer.clone(), clock.clone())?;
        let own = start.clone().map(Arc::new);
        let (orders, (taken, woken)) = orders()?;
        let (sender, feed) = feed(WAITING_BYTES_MAX);
        let mut sockets = Sockets::new(SocketsOptions {
            info: info.clone(),
            start,
            signer,
            // The identity of the client's sockets.
            identity: session.id.as_bytes().to_vec(),
            orders: taken,
            woken,
            feed: sender,
            clock: clock.clone(),
        });
        // First starts the kernel, if that is requested.
        let thread = thread::spawn("td-kernel", move || sockets.run())?;
        let control = KernelControl {
            session,
            orders,
            interrupts: Arc::default(),
            own,
        };
        let mut kernel = Self {
            feed,
            control,
            thread: Some(thread),
            clock,
            stop,
            stage: ConnectionStage::Connecting,
            is_python: false,
            is_silent: false,
            interval: Duration::ZERO,
            // The default limit of bytes of each stream in a result.
            collected_bytes: 256 * 1024 * 1024,
        };
        kernel.connected()?;
        Ok(kernel)
    }

    /// Returns the connection file, with which other clients can connect, if this program started the kernel.
    pub fn connection_file(&self) -> Option<&Path> {
        let own = self.control.own.as_ref();
        own.map(|own| own.connection_file.as_path())
    }

    /// Returns a control that interrupts the kernel from another thread.
    pub fn control(&self) -> KernelControl {
        self.control.clone()
    }

    /// Returns true if this program started the kernel.
    pub(crate) fn is_own(&self) -> bool {
        self.control.own.is_some()
    }

    /// Restarts the kernel, which loses all its variables. Also revives a kernel that has died.
    ///
    /// # Errors
    /// `is_invalid_input()` if this program did not start it; the errors of [`Kernel::start`].
    pub fn restart(&mut self) -> Result<()> {
        if !self.is_own() {
            return Err(Error::invalid(
                "this kernel was started by another program, which alone can restart it",
            ));
        }
        let shutdown = self.control.session.shutdown(true);
        self.control.orders.send(Order::Restart { shutdown });
        self.disconnected();
        while !matches!(self.receive(None)?, Some(Incoming::Restarting)) {}
        self.connected()?;
        self.ready()
    }

    /// Waits until all sockets are connected.
    fn connected(&mut self) -> Result<()> {
        loop {
            match self.receive(None)? {
                Some(Incoming::Connected) => break,
                Some(Incoming::Gone(error)) => return Err(self.gone(error)),
                _ => {}
            }
        }
        self.stage = ConnectionStage::Connected;
        Ok(())
    }

    /// Records that the sockets must be connected again.
    fn disconnected(&mut self) {
        (self.stage, self.is_silent) = (ConnectionStage::Connecting, false);
    }

    /// Records that the kernel is gone, and returns the reason. The next request gets the reason again.
    fn gone(&mut self, error: Error) -> Error {
        self.stage = ConnectionStage::Connected;
        error
    }

    /// Waits until the kernel answers and its outputs arrive.
    pub(crate) fn ready(&mut self) -> Result<()> {
        if self.stage >= ConnectionStage::Ready {
            return Ok(());
        }
        if self.stage == ConnectionStage::Connecting {
            self.connected()?;
        }
        let mut readiness = Readiness::new(self.clock.now());
        let info = loop {
            if let Some(info) = readiness.ready() {
                break info;
            }
            let now = self.clock.now();
            for channel in readiness.due(now)? {
                let id = self.send(*channel, "kernel_info_request", &json!({}));
                readiness.request_ids.push(id);
            }
            match self.receive(Some(readiness.next_request_at))? {
                Some(Incoming::Message(message)) => readiness.note(&message),
                Some(Incoming::Gone(error)) => return Err(self.gone(error)),
                Some(Incoming::Disconnected) => self.connected()?,
                Some(Incoming::Beating(is_beating)) => self.beats(is_beating)?,
                _ => {}
            }
        };
        log::debug!(
            "kernel: {} {}, {} {}, protocol {}",
            info.implementation,
            info.implementation_version,
            info.language_info.name,
            info.language_info.version,
            info.protocol_version
        );
        self.is_python = info.language_info.name.eq_ignore_ascii_case("python");
        self.stage = ConnectionStage::Ready;
        Ok(())
    }

    /// Sets the streams of a Python kernel to send output promptly.
    fn make_prompt(&mut self) -> Result<()> {
        if self.stage < ConnectionStage::Prompt && self.is_python {
            let missed = MissedInterrupt::new(u64::MAX);
            self.request(&prompt_output(), &mut DiscardedOutput, missed)?;
        }
        self.stage = ConnectionStage::Prompt;
        Ok(())
    }

    /// Handles the reports since the last cell. Messages among them belong to earlier cells and are dropped.
    fn catch_up(&mut self) -> Result<()> {
        while let Some(incoming) = self.feed.take() {
            match incoming {
                Incoming::Beating(is_beating) => self.is_silent = !is_beating,
                Incoming::Disconnected => {
                    self.disconnected();
                    self.connected()?;
                }
                Incoming::Gone(error) => return Err(self.gone(error)),
                _ => {}
            }
        }
        self.beats(!self.is_silent)
    }

    /// Records a change of the heartbeat.
    ///
    /// # Errors
    /// `is_gone()` if a kernel of another program is silent. For a kernel of our own, the end of its process
    /// is reported separately.
    fn beats(&mut self, is_beating: bool) -> Result<()> {
        self.is_silent = !is_beating;
        match (is_beating, self.is_own()) {
            (true, _) => Ok(()),
            (false, true) => {
                log::warn!("{}", silent());
                Ok(())
            }
            (false, false) => Err(silent()),
        }
    }

    /// Runs code to its end and passes its outputs to the listener.
    pub(crate) fn run(&mut self, code: &str, listener: &mut dyn CellListener) -> Result<Cell> {
        let missed = MissedInterrupt::new(self.control.interrupts());
        self.catch_up()?;
        self.ready()?;
        self.make_prompt()?;
        let content = json!({
            "code": code, "silent": false, "store_history": true, "user_expressions": {},
            "allow_stdin": listener.allows_questions(),
            // Requests are sent one at a time. With `true`, older kernels would abort the next one after an
            // error.
            "stop_on_error": false,
        });
        self.request(&content, listener, missed)
    }

    /// Asks the kernel if code is valid. Returns `None` if it does not know, or does not answer soon because it
    /// runs other code. What this finds out about the connection, the next request gets, too.
    pub(crate) fn verify(&mut self, code: &str) -> Option<Verification> {
        self.catch_up().ok()?;
        self.ready().ok()?;
        // A block is complete when blank lines follow it.
        let content = json!({ "code": format!("{}\n\n", code.trim_end()) });
        let id = self.send(Channel::Shell, "is_complete_request", &content);
        let until = self.clock.now() + VERIFY_WITHIN;
        loop {
            match self.receive(Some(until)).ok()?? {
                Incoming::Message(message)
                    if message.parent_id == id && message.channel == Channel::Shell =>
                {
                    let content: CompletenessContent = message.content().unwrap_or_default();
                    return match content.status.as_str() {
                        "complete" => Some(Verification::Correct),
                        "incomplete" | "invalid" => Some(Verification::Incorrect),
                        _ => None,
                    };
                }
                Incoming::Message(_)
                | Incoming::Missed(_)
                | Incoming::Connected
                | Incoming::Restarting => {}
                Incoming::Beating(is_beating) => self.is_silent = !is_beating,
                Incoming::Disconnected => {
                    self.disconnected();
                    return None;
                }
                Incoming::Gone(error) => {
                    self.gone(error);
                    return None;
                }
            }
        }
    }

    /// Sends an execution request and waits for its end.
    fn request(
        &mut self,
        content: &serde_json::Value,
        listener: &mut dyn CellListener,
        mut missed: MissedInterrupt,
    ) -> Result<Cell> {
        let id = self.send(Channel::Shell, "execute_request", content);
        let mut cell = Cell::default();
        // Set once the reply or the idle state has arrived: the time to stop waiting for the other.
        let mut until = None;
        let mut is_stopping = false;
        loop {
            let now = self.clock.now();
            if missed.is_due(now) {
                self.control.interrupt_again();
            }
            if until.is_some_and(|until| now >= until) {
                if is_stopping {
                    return Err(Error::gone("the code was stopped"));
                }
                log::warn!("the kernel {}", cell.missing());
                if let CellStep::Output(output) = cell.give_up() {
                    listener.output(&output);
                }
                break;
            }
            let deadlines = listener
                .tick(now)
                .into_iter()
                .chain(until)
                .chain(missed.retry_at);
            let incoming = match self.receive(deadlines.min()) {
                Ok(Some(incoming)) => incoming,
                Ok(None) => continue,
                Err(stopped) if is_stopping => return Err(stopped),
                Err(_) => {
                    is_stopping = true;
                    self.stop = never();
                    self.control.interrupt();
                    until = Some(now + STOP_GRACE);
                    continue;
                }
            };
            match incoming {
                Incoming::Message(message) if message.parent_id == id => {
                    self.step(&mut cell, &message, listener, &mut missed);
                    if cell.has_reply && cell.is_idle {
                        break;
                    }
                    missed.note(&message.msg_type, self.control.interrupts(), now);
                    // Outputs may still arrive, and the listener may be slow.
                    if (cell.has_reply || cell.is_idle) && !is_stopping {
                        until = Some(self.clock.now() + LAST_OUTPUTS);
                    }
                }
                Incoming::Message(_) | Incoming::Connected | Incoming::Restarting => {}
                Incoming::Missed(missed) => listener.missed(missed),
                Incoming::Beating(is_beating) => self.beats(is_beating)?,
                Incoming::Disconnected if self.is_own() => {}
                Incoming::Disconnected => {
                    self.disconnected();
                    return Err(Error::gone(
                        "the kernel closed its connections while the code ran: it ended or was restarted",
                    ));
                }
                Incoming::Gone(error) => return Err(self.gone(error)),
            }
        }
        Ok(cell)
    }

    fn step(
        &self,
        cell: &mut Cell,
        message: &Message,
        listener: &mut dyn CellListener,
        missed: &mut MissedInterrupt,
    ) {
        match cell.take(message) {
            CellStep::Output(output) => listener.output(&output),
            // The user has already interrupted this code.
            CellStep::Question(_) if missed.retry_at.take().is_some() => {
                self.control.interrupt_again()
            }
            CellStep::Question(question) => {
                let is_over = || self.feed.ends_question(self.is_own());
                if let Some(value) = listener.answer(&question, &is_over) {
                    self.send(Channel::Stdin, "input_reply", &json!({ "value": value }));
                }
            }
            CellStep::Begins { .. } | CellStep::Nothing => {}
        }
    }

    fn send(&self, channel: Channel, msg_type: &str, content: &serde_json::Value) -> String {
        let (id, frames) = self.control.session.request(msg_type, content);
        self.control.orders.send(Order::Send(channel, frames));
        id
    }

    /// Returns the next report of the thread; `None` at the deadline.
    ///
    /// # Errors
    /// `is_gone()` if `stop` is closed.
    pub(super) fn receive(&self, deadline: Option<Instant>) -> Result<Option<Incoming>> {
        let timer = deadline.map_or_else(never, |at| self.clock.at(at));
        loop {
            if is_stopped(&self.stop) {
                return Err(Error::gone("stopped"));
            }
            if let Some(incoming) = self.feed.take() {
                return Ok(Some(incoming));
            }
            select_biased! {
                recv(self.stop) -> _ => {}
                recv(self.feed.bell) -> rung => if rung.is_err() {
                    // The thread may have sent a report between the check above and its end.
                    let last = self.feed.take();
                    return last.map(Some).ok_or_else(|| Error::gone("the connection to the kernel has failed"));
                },
                recv(timer) -> _ => return Ok(None),
            }
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let shutdown = self.control.session.shutdown(false);
        self.control.orders.send(Order::Close { shutdown });
        if let Some(thread) = self.thread.take() {
            thread.join_logged();
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field(
                "spec",
                &self.control.own.as_ref().map(|own| own.spec.name()),
            )
            .finish_non_exhaustive()
    }
}

/// The outcome of code that a kernel ran, with everything that it printed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExecutionResult {
    /// The outcome of the code.
    pub status: CellStatus,
    /// The kernel's execution counter, if it sent one.
    pub execution_count: Option<u32>,
    /// The text printed on standard output, including displayed values.
    pub stdout: String,
    /// The text printed on standard error, including tracebacks.
    pub stderr: String,
    /// The number of bytes beyond [`Kernel::collect_at_most`]. Only the callback received them.
    pub lost_bytes: u64,
    /// Outputs that were dropped because the callback was too slow.
    pub missed: MissedOutputs,
    /// The time from the request to the end of the code.
    pub duration: Duration,
}

impl Kernel {
    /// Runs code, calls `on_output` with each text as it arrives, and returns the complete result. The texts
    /// of a stream add up to its text in the result.
    ///
    /// Tracebacks keep their ANSI colours. Code that asks for input (`input()`) gets an error, because there
    /// is no user.
    ///
    /// # Errors
    /// `is_gone()` if the kernel ended, was restarted, or has not answered its heartbeat for 3 s;
    /// `is_timeout()` if it does not answer its first request. An exception of the code is reported in
    /// [`ExecutionResult::status`], not as an error.
    pub fn execute(
        &mut self,
        code: &str,
        on_output: impl FnMut(OutputStream, &str),
    ) -> Result<ExecutionResult> {
        let began = self.clock.now();
        let mut collector = Collector {
            on_output,
            batch: TextBatch::new(self.interval),
            clock: self.clock.clone(),
            bytes_max: self.collected_bytes,
            result: ExecutionResult::default(),
        };
        let end = self.run(code, &mut collector)?;
        let now = collector.clock.now();
        collector.pass(now);
        Ok(ExecutionResult {
            status: end.status,
            execution_count: end.count,
            duration: now.saturating_duration_since(began),
            ..collector.result
        })
    }

    /// Sets the shortest interval between two calls of the callback, such as 100 ms. Defaults to zero, which
    /// passes on each text as it arrives. Text after a pause is passed on immediately.
    pub fn batch_outputs(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// Sets the number of bytes of each stream that a result keeps. Defaults to 256 MiB.
    pub fn collect_at_most(&mut self, bytes: usize) {
        self.collected_bytes = bytes;
    }
}

struct Collector<F> {
    on_output: F,
    batch: TextBatch,
    clock: Clock,
    bytes_max: usize,
    result: ExecutionResult,
}

impl<F: FnMut(OutputStream, &str)> Collector<F> {
    /// Passes on the held text.
    fn pass(&mut self, now: Instant) {
        if let Some((stream, text)) = self.batch.take(now) {
            (self.on_output)(stream, &text);
        }
    }
}

impl<F: FnMut(OutputStream, &str)> CellListener for Collector<F> {
    fn output(&mut self, output: &CellOutput) {
        let Some((stream, text)) = output.text() else {
            return;
        };
        let collected = match stream {
            OutputStream::Stdout => &mut self.result.stdout,
            OutputStream::Stderr => &mut self.result.stderr,
        };
        let room = self.bytes_max.saturating_sub(collected.len());
        let kept = first_bytes(&text, room);
        collected.push_str(kept);
        self.result.lost_bytes += (text.len() - kept.len()) as u64;
        let now = self.clock.now();
        let (other, held) = self.batch.begin(stream, now);
        held.push_str(&text);
        if let Some((stream, text)) = other {
            (self.on_output)(stream, &text);
        }
        if self.batch.is_due(now) {
            self.pass(now);
        }
    }

    fn missed(&mut self, missed: MissedOutputs) {
        self.result.missed.add(missed);
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        if self.batch.is_due(now) {
            self.pass(now);
        }
        self.batch.due()
    }
}

/// Creates the requests of one client.
#[derive(Clone)]
pub(super) struct Session {
    id: Arc<str>,
    signer: Signer,
    requests: Arc<AtomicU64>,
    clock: Clock,
}

impl Session {
    pub fn new(signer: Signer, clock: Clock) -> Result<Self> {
        Ok(Self {
            id: random_digits()?.into(),
            signer,
            requests: Arc::default(),
            clock,
        })
    }

    /// Returns the id and the frames of a request.
    pub fn request(&self, msg_type: &str, content: &Value) -> (String, Vec<Vec<u8>>) {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let msg_id = format!("{}_{number}", self.id);
        let header = json!({
            "msg_id": msg_id,
            "msg_type": msg_type,
            "session": &*self.id,
            "username": "td-observe",
            "date": self.clock.wall().to_string(),
            // The protocol version in the header of requests.
            "version": "5.3",
        });
        let frames = request_frames(&header, content, &self.signer);
        (msg_id, frames)
    }

    /// Returns the request that ends a kernel.
    pub fn shutdown(&self, restart: bool) -> Vec<Vec<u8>> {
        self.request("shutdown_request", &json!({ "restart": restart }))
            .1
    }
}

/// Interrupts a kernel from another thread. Cheap to clone.
#[derive(Clone)]
pub struct KernelControl {
    pub(super) session: Session,
    pub(super) orders: Orders,
    pub(super) interrupts: Arc<AtomicU64>,
    /// The kernel's start, if this program started it.
    pub(super) own: Option<Arc<KernelStart>>,
}

impl KernelControl {
    /// Interrupts the running code, as Ctrl-C does. The kernel stays usable.
    pub fn interrupt(&self) {
        self.interrupts.fetch_add(1, Ordering::SeqCst);
        self.interrupt_again();
    }

    /// Repeats an interrupt that the kernel missed because its code had not begun.
    pub(super) fn interrupt_again(&self) {
        let own = self.own.as_ref();
        self.orders
            .send(match own.map(|own| own.spec.interrupt_mode) {
                Some(InterruptMode::Signal) => Order::Signal(Signal::INT),
                // Kernels of other programs also get a message.
                Some(InterruptMode::Message) | None => {
                    let (_, frames) = self.session.request("interrupt_request", &json!({}));
                    Order::Send(Channel::Control, frames)
                }
            });
    }

    /// Kills the kernel, if this program started it.
    pub(crate) fn kill(&self) {
        if let Some(own) = &self.own {
            own.kill_handle.kill();
            remove_connection_file(&own.connection_file);
        }
    }

    /// Returns the number of interrupts so far.
    pub(crate) fn interrupts(&self) -> u64 {
        self.interrupts.load(Ordering::SeqCst)
    }
}

impl std::fmt::Debug for KernelControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelControl")
            .field("is_own", &self.own.is_some())
            .finish_non_exhaustive()
    }
}
