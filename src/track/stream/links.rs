//! The addresses of a pane's links (OSC 8), each with a number that the style of a character holds (pure).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::event::is_address;
use rustc_hash::FxHashMap;

/// The longest address, in bytes, as in the specification of OSC 8: what VTE and iTerm2 accept. Text with a longer one
/// is no link.
const ADDRESS_BYTES_MAX: usize = 2083;

/// The longest parameters, in bytes: VTE accepts an id of 250. With both bounds, an `OSC` whose end was not kept has no
/// link.
const PARAMETERS_BYTES_MAX: usize = 256;

/// The most addresses that are known, as many as an event may have. Text with an older one is no link any more.
const ADDRESSES_MAX: usize = 1024;

/// The size of all known addresses, in bytes. Beyond it, the oldest ones are forgotten.
const ADDRESSES_BYTES_MAX: usize = 128 * 1024;

/// The last addresses of a pane's links. Numbers are never used again, so that no text gets the address of another.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    known: VecDeque<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u32>,
    /// The number of addresses that are forgotten, which have the numbers from 1 on.
    forgotten: u32,
    bytes: usize,
}

impl Addresses {
    /// Returns the address with this number, if it is still known.
    pub fn get(&self, number: u32) -> Option<&Arc<str>> {
        let at = number.checked_sub(self.forgotten)?.checked_sub(1)?;
        self.known.get(at as usize)
    }

    /// Takes a complete `OSC 8 ; PARAMETERS ; ADDRESS`, as its bytes after `ESC`, and returns the number of the link
    /// that it begins; 0 if it only ends one, because its address is empty, too long or not one of [`is_address`].
    /// Returns `None` for other sequences, and for one without its second `;`, which tmux ignores as well.
    pub fn link(&mut self, osc: &[u8]) -> Option<u32> {
        let link = osc.strip_prefix(b"]8;")?;
        // The parameters name links that a mouse lights up together, which matters to no reader of text.
        let end = memchr::memchr(b';', link)?;
        let address = std::str::from_utf8(&link[end + 1..]).unwrap_or_default();
        let is_short = end <= PARAMETERS_BYTES_MAX && address.len() <= ADDRESS_BYTES_MAX;
        Some(if is_short && is_address(address) {
            self.number(address)
        } else {
            0
        })
    }

    /// Returns the number of an address; 0 after four billion of them.
    fn number(&mut self, address: &str) -> u32 {
        if let Some(number) = self.numbers.get(address) {
            return *number;
        }
        // At most `ADDRESSES_MAX` are known.
        let Some(number) = self.forgotten.checked_add(self.known.len() as u32 + 1) else {
            return 0;
        };
        let address: Arc<str> = address.into();
        self.bytes += address.len();
        self.numbers.insert(address.clone(), number);
        self.known.push_back(address);
        while self.known.len() > ADDRESSES_MAX || self.bytes > ADDRESSES_BYTES_MAX {
            let Some(oldest) = self.known.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
            self.forgotten += 1;
            self.numbers.remove(&oldest);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn old_addresses_are_forgotten() {
        let mut addresses = Addresses::default();
        assert_eq!(addresses.get(0), None);
        for number in 1..=10_000 {
            let address = format!("http://x/{number}");
            assert_eq!(addresses.number(&address), number);
            assert_eq!(addresses.number(&address), number);
            assert_eq!(addresses.get(number).map(|it| &**it), Some(&*address));
        }
        assert_eq!(addresses.get(10_001), None);
        assert_eq!(addresses.get(10_000 - ADDRESSES_MAX as u32), None);
        // A forgotten address gets another number.
        assert_eq!(addresses.number("http://x/1"), 10_001);
        assert_eq!(addresses.get(1), None);
    }

    proptest! {
        #[test]
        fn known_addresses_are_bounded(lengths in prop::collection::vec(1_usize..ADDRESS_BYTES_MAX, 0..200)) {
            let mut addresses = Addresses::default();
            for (at, length) in lengths.into_iter().enumerate() {
                let address = format!("{at:0length$}");
                let number = addresses.number(&address);
                prop_assert_eq!(addresses.get(number).map(|it| &**it), Some(&*address));
                let known: usize = addresses.known.iter().map(|known| known.len()).sum();
                prop_assert_eq!(addresses.bytes, known);
                prop_assert!(known <= ADDRESSES_BYTES_MAX && addresses.known.len() <= ADDRESSES_MAX);
                prop_assert_eq!(addresses.numbers.len(), addresses.known.len());
            }
        }
    }
}
