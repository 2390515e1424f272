//! Shows messages in the status lines of attached tmux clients, with a bell if that is wanted.
//!
//! Nothing of it stays: a message disappears after its time or with the next key, and no option of the user is set.
//! Only `show-messages` of tmux lists what was shown. What is settled meanwhile is therefore not withdrawn.

use std::time::Duration;

use super::super::message::{Item, Note};
use super::bell::{attached, refused, ring_all};
use super::{Channel, Sent, Unsent};
use crate::clock::Clock;
use crate::face::{one_line, with_ellipsis};
use crate::tmux::Server;

/// How long a message is shown unless a key is pressed: long enough to read a line. Before tmux 3.7, the client shows
/// no output of its panes meanwhile.
const SHOWN: Duration = Duration::from_secs(5);

/// Shows one line in the status line of each attached client.
#[derive(Debug)]
pub(in crate::notify) struct TmuxChannel {
    servers: Vec<Server>,
    bell: bool,
    clock: Clock,
}

impl TmuxChannel {
    /// Creates a channel to the clients of these servers. Each query has the server's deadline.
    pub fn new(servers: Vec<Server>, bell: bool, clock: Clock) -> Self {
        Self {
            servers,
            bell,
            clock,
        }
    }
}

impl Channel for TmuxChannel {
    fn send(&mut self, note: &Note) -> Result<Sent, Unsent> {
        let attached = attached(&self.servers, &self.clock)?;
        let line = line(note);
        let mut unsent = None;
        let mut shown = Vec::new();
        for (server, viewers) in attached {
            let text = |columns| with_ellipsis(&line, columns);
            match server.show_message(&viewers, text, SHOWN, &self.clock) {
                Ok(()) => shown.push((server, viewers)),
                // It shows the message if it continues.
                Err(error) if error.is_timeout() => {
                    unsent = Some(Unsent::Unconfirmed(error.to_string()));
                }
                Err(error) => unsent = Some(refused(&error)),
            }
        }
        if let Some(unsent) = unsent.filter(|_| shown.is_empty()) {
            return Err(unsent);
        }
        if self.bell
            && let Err(unsent) = ring_all(&shown)
        {
            // The message is shown, and its bell alone is not sent again.
            log::debug!("{unsent:?}");
        }
        Ok(Sent::default())
    }

    /// Does nothing: the message has disappeared or is about to.
    fn update(&mut self, _: &Note, _: &Sent) -> Result<(), Unsent> {
        Ok(())
    }

    fn output(&mut self, _: &str) -> Result<(), Unsent> {
        Err(Unsent::Never("a status line shows no output".into()))
    }
}

/// Returns a message in one line, without control characters.
fn line(note: &Note) -> String {
    one_line(&match note.items.as_slice() {
        [item] => item.line(),
        items => {
            let titles: Vec<String> = items.iter().map(Item::title).collect();
            format!("{}: {}", note.title(), titles.join(", "))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Stage, note};
    use super::*;

    #[test]
    fn a_message_is_shown_literally_to_each_client_and_leaves_no_trace() {
        let stage = Stage::new();
        let options = stage.options();
        let (wide, narrow) = (stage.attach(250), stage.attach(40));
        let file = stage.directory().join("executed");
        let hostile = format!(
            "'q' \"d\" $HOME ~ \\n {{x}} #(touch {}) #{{pane_id}} %H 5% #[fg=red]R #S ## ###[x] \
             ####{{e}} #, #}} ; é漢",
            file.display()
        );
        let mut channel = TmuxChannel::new(vec![stage.server()], true, Clock::system());
        let before = wide.bells();
        let sent = channel.send(&note("n1", &format!("{hostile}\nnext\tline\x1b[31m\0")));
        assert_eq!(sent, Ok(Sent(None)));
        let shown = format!("job asks: {hostile} next");
        let screen = wide.wait_for(&shown);
        assert!(screen.trim_end().ends_with("line^[[31m^@"), "{screen}");
        narrow.wait_for("job asks: 'q' \"d\" $HOME ~ \\n {x} #(touc…");
        wide.wait_for_bells(before + 1);
        assert_eq!(stage.options(), options);
        // Each key dismisses it and reaches the pane.
        wide.types("x");
        wide.wait_for_gone(&shown);
        wide.wait_for("x");
        assert!(!file.exists());
        assert_eq!(channel.update(&note("n1", ""), &Sent(None)), Ok(()));
    }

    #[test]
    fn a_client_in_control_mode_gets_nothing() {
        let stage = Stage::new();
        let control = stage.attach_control();
        let mut channel = TmuxChannel::new(vec![stage.server()], true, Clock::system());
        let never = Err(Unsent::Nobody("no tmux client is attached"));
        assert_eq!(channel.send(&note("n1", "secret")), never);
        let client = stage.attach(80);
        channel.send(&note("n1", "secret")).unwrap();
        client.wait_for("job asks: secret");
        // It is told of the new client after the message would have come.
        stage.tmux(&["rename-window", "marker"]);
        control.wait_for("marker");
        assert!(!control.received().contains("secret"));
    }

    #[test]
    fn a_server_that_hangs_delays_the_others_by_its_deadline() {
        let (hung, stage) = (Stage::new(), Stage::new());
        let _unseen = hung.attach(80);
        let client = stage.attach(80);
        let clock = Clock::system();
        hung.freeze(true);
        let short = Duration::from_millis(300);
        let servers = vec![hung.server().with_timeout(short), stage.server()];
        let began = clock.now();
        let mut channel = TmuxChannel::new(servers, false, clock.clone());
        channel.send(&note("n1", "text")).unwrap();
        client.wait_for("job asks: text");
        let mut channel = TmuxChannel::new(
            vec![hung.server().with_timeout(short)],
            false,
            clock.clone(),
        );
        let refused = channel.send(&note("n1", "text")).unwrap_err();
        assert!(matches!(refused, Unsent::Later(None, _)), "{refused:?}");
        assert!(clock.now() - began < Duration::from_secs(5));
        hung.freeze(false);
    }

    #[test]
    fn several_news_are_one_line() {
        let mut several = note("n1", "first?");
        several.items.extend(note("n2", "second?").items);
        assert_eq!(
            line(&several),
            "2 of 2 agents and jobs need you: job asks, job asks"
        );
    }
}
