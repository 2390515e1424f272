//! Looks that are taken before it is known whether a pane has changed (pure).
//!
//! A look that comes along with the question which panes have changed costs the server less time
//! than another process takes to start, and is there sooner. That holds for a few panes only.

use super::ask::Wish;
use super::capture::Shot;
use super::depth::Margin;
use super::seen::{Proof, Seen};
use crate::event::PaneId;

/// How many panes are looked at so: as many as are looked at in the time that starting tmux takes.
const PANES_MAX: usize = 4;

/// How many rows a pane may have printed for its look to be deep enough. What they cost is less
/// than the rest of the look.
const ROWS: u32 = 64;

/// The looks to take at this moment for those who wish to know of these panes: of all that may have
/// changed, or of none.
pub(super) fn guesses<'a>(
    wishes: impl Iterator<Item = (&'a PaneId, &'a Wish, &'a Seen)>,
    now: Proof,
) -> Vec<Shot> {
    let mut shots: Vec<Shot> = Vec::new();
    for (pane, wish, seen) in wishes {
        let Margin::Rows(rows) = wish.margin else {
            continue;
        };
        if wish.rests || seen.nothing_read(now.bytes) {
            continue;
        }
        let depth = rows.saturating_add(ROWS);
        match shots.iter().position(|shot| shot.pane == *pane) {
            Some(at) => shots[at].depth = shots[at].depth.max(depth),
            None if shots.len() == PANES_MAX => return Vec::new(),
            None => shots.push(Shot {
                pane: pane.clone(),
                depth,
                saved: seen.alternate,
                seam: None,
            }),
        }
    }
    shots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_panes_are_looked_at_and_many_are_not() {
        let wish = |rows| Wish {
            seen: None,
            margin: Margin::Rows(rows),
            settles: None,
            rests: false,
        };
        let resting = Wish {
            rests: true,
            ..wish(0)
        };
        let deep = Wish {
            margin: Margin::All,
            ..wish(0)
        };
        let (few, more) = (wish(10), wish(20));
        let seen = Seen::default();
        let ids: Vec<PaneId> = (0..=PANES_MAX).map(|n| format!("%{n}").into()).collect();
        let of = |wishes: &[(usize, &Wish)], seen: &Seen, now| {
            let wishes = wishes.iter().map(|(at, wish)| (&ids[*at], *wish, seen));
            let shots = guesses(wishes, now);
            shots.iter().map(|shot| shot.depth).collect::<Vec<_>>()
        };
        let now = Proof {
            bytes: Some(7),
            ..Proof::default()
        };
        assert_eq!(
            of(&[(0, &few), (0, &more), (1, &few), (2, &deep)], &seen, now),
            [84, 74]
        );
        let many: Vec<_> = (0..=PANES_MAX).map(|at| (at, &few)).collect();
        assert!(of(&many, &seen, now).is_empty());
        let quiet = Seen {
            proof: now,
            ..Seen::default()
        };
        assert!(of(&[(0, &few)], &quiet, now).is_empty(), "nothing was read");
        assert!(of(&[(0, &resting)], &seen, now).is_empty(), "it rests");
    }
}
