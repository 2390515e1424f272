//! The requests of one client, with their ids and signatures, and a control for other threads.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::kernelspec::InterruptMode;
use super::orders::{Order, Orders};
use super::process::{KernelStart, remove_connection_file};
use super::wire::{Channel, Request, Signer};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// The bytes of a session id and of a key: 128 bits, as in a UUID.
const RANDOM_BYTES: usize = 16;

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

    /// Returns the identity of the client's sockets.
    pub fn identity(&self) -> Vec<u8> {
        self.id.as_bytes().to_vec()
    }

    /// Returns the id and the frames of a request.
    pub fn request(&self, msg_type: &str, content: &Value) -> (String, Vec<Vec<u8>>) {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let msg_id = format!("{}_{number}", self.id);
        let request = Request {
            msg_id: &msg_id,
            msg_type,
            session: &self.id,
            date: &self.clock.wall().to_string(),
            content,
        };
        let frames = request.frames(&self.signer);
        (msg_id, frames)
    }

    /// Returns the request that ends a kernel.
    pub fn shutdown(&self, restart: bool) -> Vec<Vec<u8>> {
        self.request("shutdown_request", &json!({ "restart": restart }))
            .1
    }
}

/// Returns 32 random hexadecimal digits, for a unique id or a key.
pub(super) fn random_digits() -> Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|cause| Error::other("cannot read random bytes").because(cause))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
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
