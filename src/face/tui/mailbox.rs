//! Bounded letter boxes between the threads of the UI, whose senders never wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};

/// The requests that wait for a thread. A person selects fewer rows in the time that one page takes.
const LETTERS_MAX: usize = 64;

/// The sending end. The thread at the other end is rung when it is dropped, too.
#[derive(Debug)]
pub(super) struct Mailbox<T> {
    letters: Arc<Mutex<VecDeque<T>>>,
    bell: Sender<()>,
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct Letters<T> {
    letters: Arc<Mutex<VecDeque<T>>>,
    pub bell: Receiver<()>,
}

/// Makes a box and its letters.
pub(super) fn mailbox<T>() -> (Mailbox<T>, Letters<T>) {
    let letters = Arc::new(Mutex::new(VecDeque::new()));
    let (ring, bell) = bounded(1);
    let mailbox = Mailbox {
        letters: letters.clone(),
        bell: ring,
    };
    (mailbox, Letters { letters, bell })
}

impl<T> Mailbox<T> {
    /// Adds a letter; the oldest goes where there are too many.
    pub fn send(&self, letter: T) {
        let mut letters = lock(&self.letters);
        if letters.len() >= LETTERS_MAX {
            letters.pop_front();
        }
        letters.push_back(letter);
        drop(letters);
        self.ring();
    }

    /// Rings the thread at the other end.
    pub fn ring(&self) {
        // A bell that rings already is enough.
        let _ = self.bell.try_send(());
    }

    /// Takes back all letters.
    pub fn clear(&self) {
        lock(&self.letters).clear();
    }

    /// Replaces all letters by one.
    pub fn replace(&self, letter: T) {
        self.clear();
        self.send(letter);
    }
}

impl<T> Letters<T> {
    /// Takes all letters.
    pub fn take(&self) -> VecDeque<T> {
        std::mem::take(&mut *lock(&self.letters))
    }
}

fn lock<T>(letters: &Mutex<VecDeque<T>>) -> MutexGuard<'_, VecDeque<T>> {
    // The letters are whole whatever happened to the other thread.
    letters.lock().unwrap_or_else(PoisonError::into_inner)
}
