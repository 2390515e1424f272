//! Types a text or keys into a pane, as a person would. The last look at the pane and the keys are one tmux command
//! list, which the server runs between two reads of the pane.

use std::time::Duration;

use crossbeam_channel::select_biased;
use rustix::fs::{Mode, OFlags};
use rustix::termios::LocalModes;

use super::pipe::quoted_for_tmux;
use super::server::{Nonce, Server};
use super::state::decimal;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{Cursor, PaneId, Styles};
use crate::text::{first_bytes, first_chars};
use crate::thread::Stop;
use crate::track::sgr_rows;

/// The shortest time between a text and Enter. Programs that draw their own input, such as agents, treat input that
/// is faster than typing as a paste, in which Enter is a line end.
const TYPING: Duration = Duration::from_millis(300);

/// The longest time between a text and Enter, for a program that does not show the text.
const ENTER_WITHIN: Duration = Duration::from_secs(1);

/// The interval at which the screen is read until it shows the text.
const LOOK: Duration = Duration::from_millis(50);

/// The number of looks until one is still true when the keys are typed. A screen that is drawn all the time
/// may differ each time.
const LOOKS_MAX: usize = 6;

/// The maximum size of one argument; tmux rejects arguments beyond 16 KiB.
const BYTES_MAX: usize = 4 * 1024;

/// The maximum number of keys per request, which fit into one command.
const KEYS_MAX: usize = 256;

/// The maximum number of rows of a screen, from the bottom, that must not change before the keys are typed, and the
/// maximum number of their characters. A dialogue is shorter.
const ROWS_MAX: usize = 30;
const ROW_CHARS_MAX: usize = 120;

/// The shells that accept Enter at once.
const SHELLS: [&str; 8] = ["ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "zsh"];

/// The key names of tmux, without its mouse and user keys.
const KEYS: [&str; 38] = [
    "Up", "Down", "Left", "Right", "Enter", "Escape", "Space", "Tab", "BTab", "BSpace", "Delete",
    "DC", "Insert", "IC", "Home", "End", "PageUp", "PgUp", "PPage", "PageDown", "PgDn", "NPage",
    "KPEnter", "KP/", "KP*", "KP-", "KP+", "KP.", "KP0", "KP1", "KP2", "KP3", "KP4", "KP5", "KP6",
    "KP7", "KP8", "KP9",
];

/// The input to type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typing {
    /// A text, typed unchanged, and optionally Enter after it. Several lines are one paste.
    Text { text: String, presses_enter: bool },
    /// Keys by their names.
    Keys(Vec<String>),
    /// Keys that select a choice or choose it at once, and Enter if it is only selected.
    Choice(Vec<String>),
}

/// What a pane shows at one instant, and what would read its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub pane: PaneId,
    /// The pid of the pane's first process.
    pub pid: u32,
    /// The program in the foreground, as tmux names it.
    pub program: String,
    pub cursor: Cursor,
    /// The program draws on the alternate screen.
    pub is_full: bool,
    /// The rows of the screen, from the top.
    pub rows: Vec<String>,
    /// Their colours.
    styles: Styles,
    /// The terminal collects lines for the program, which does not see the text before Enter.
    takes_lines: bool,
    /// The numbers that tmux must confirm when the keys are typed.
    numbers: String,
}

/// A moment at which keys are about to be typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the text or the keys.
    Begin,
    /// Before Enter, after the text.
    Enter,
}

/// What may be typed after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Type if the pane still shows what it showed, or if only its screen goes on changing.
    Program,
    /// Type only if the pane still shows what it showed.
    Screen,
    /// Enter is not needed any more.
    Needless,
}

/// Decides after a look what may be typed.
pub(crate) type Judge<'a> = dyn FnMut(Moment, &Look) -> Result<Permission> + 'a;

impl Typing {
    /// Validates a text. Its line ends become `\n`; one at the end is the Enter that is pressed after it.
    ///
    /// # Errors
    /// `is_invalid_input()` if it contains a zero byte, or has several lines and control characters, which could end
    /// a paste.
    pub fn text(text: &str, presses_enter: bool) -> Result<Self> {
        if text.contains('\0') {
            return Err(Error::invalid("a text with a zero byte cannot be typed"));
        }
        let mut text = text.replace("\r\n", "\n").replace('\r', "\n");
        if presses_enter && text.ends_with('\n') {
            text.pop();
        }
        let is_control = |c: &char| c.is_control() && !matches!(c, '\n' | '\t');
        if text.contains('\n')
            && let Some(c) = text.chars().find(is_control)
        {
            return Err(Error::invalid(format!(
                "the text has several lines and the control character {:?}, which could end a paste: send keys, such as \
                 Escape or C-c, on their own",
                c.to_string()
            )));
        }
        Ok(Self::Text {
            text,
            presses_enter,
        })
    }

    /// Validates key names. tmux would type an unknown name as text.
    ///
    /// # Errors
    /// `is_invalid_input()` if a name is unknown, or if there are none or too many.
    pub fn keys(names: Vec<String>) -> Result<Self> {
        if names.is_empty() || names.len() > KEYS_MAX {
            return Err(Error::invalid(format!(
                "there are {} keys: give 1 to {KEYS_MAX}",
                names.len()
            )));
        }
        match names.iter().find(|name| !is_key(name)) {
            Some(name) => Err(Error::invalid(format!(
                "{name:?} is no key of tmux: give names such as Up, Enter, F5, C-c, M-x or single characters"
            ))),
            None => Ok(Self::Keys(names)),
        }
    }

    /// Returns the pane that receives the input for a target: the active one, or otherwise the first.
    ///
    /// # Errors
    /// `is_invalid_input()` if there is none; otherwise those of [`Server::run`].
    pub fn pane_of(server: &Server, panes: &[PaneId], clock: &Clock) -> Result<PaneId> {
        let mut chosen = None;
        for pane in panes {
            let format = "#{window_active}#{pane_active}";
            let is_active = panes.len() > 1
                && server
                    .run(["display-message", "-p", "-t", pane, format], clock)?
                    .trim()
                    == "11";
            if is_active || chosen.is_none() {
                chosen = Some(pane.clone());
            }
        }
        chosen.ok_or_else(|| Error::invalid("there is no pane to type into"))
    }

    /// Types into a pane. `judge` is asked immediately before anything is typed.
    ///
    /// # Errors
    /// `is_invalid_input()` if the pane is in copy mode, is synchronized with others or its program has ended, or
    /// if it changes all the time; those of `judge`; otherwise those of [`Server::run`].
    pub fn send(
        &self,
        server: &Server,
        pane: &PaneId,
        judge: &mut Judge<'_>,
        (stop, clock): (&Stop, &Clock),
    ) -> Result<()> {
        let mut hand = Hand {
            server,
            pane,
            judge,
            clock,
        };
        match self {
            Self::Keys(names) => {
                let keys = pressed(names, pane);
                hand.act(Moment::Begin, |_| keys.clone())?;
            }
            Self::Choice(names) => {
                let keys = pressed(names, pane);
                let before = hand.act(Moment::Begin, |_| keys.clone())?;
                if let Some(before) = before
                    && hand.shows_text(&before, stop)?
                {
                    hand.press_enter()?;
                }
            }
            Self::Text {
                text,
                presses_enter,
            } => {
                let buffer = hand.paste_buffer(text)?;
                let typed = hand.act(Moment::Begin, |look| {
                    let mut commands = match &buffer {
                        Some(name) => vec![format!("paste-buffer -p -d -b {name} -t '{pane}'")],
                        None => typed(text, pane),
                    };
                    if *presses_enter && is_entered_at_once(text, look) {
                        commands.push(format!("send-keys -t '{pane}' Enter"));
                    }
                    commands.join(" ; ")
                });
                if let (Err(_), Some(name)) = (&typed, &buffer) {
                    // The error is the one to report.
                    let _ = server.run(["delete-buffer", "-b", name], clock);
                }
                if let Some(before) = typed?
                    && *presses_enter
                    && !is_entered_at_once(text, &before)
                    && hand.shows_text(&before, stop)?
                {
                    hand.press_enter()?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the command that presses keys.
fn pressed(names: &[String], pane: &PaneId) -> String {
    let names = names.iter().map(|name| quoted_for_tmux(name.as_bytes()));
    let names: Vec<String> = names.collect();
    format!("send-keys -t '{pane}' -- {}", names.join(" "))
}

/// True if Enter follows the text in the same command list.
fn is_entered_at_once(text: &str, look: &Look) -> bool {
    text.is_empty() || look.takes_lines || SHELLS.contains(&look.program.as_str())
}

/// Returns the commands that type a text of one line.
fn typed(text: &str, pane: &PaneId) -> Vec<String> {
    let command = |part: &str| {
        format!(
            "send-keys -t '{pane}' -l -- {}",
            quoted_for_tmux(part.as_bytes())
        )
    };
    parts(text).map(command).collect()
}

/// Types into a pane.
struct Hand<'a, 'b> {
    server: &'a Server,
    pane: &'a PaneId,
    judge: &'a mut Judge<'b>,
    clock: &'a Clock,
}

impl Hand<'_, '_> {
    /// Puts a text of several lines into a buffer of tmux.
    fn paste_buffer(&self, text: &str) -> Result<Option<String>> {
        if !text.contains('\n') {
            return Ok(None);
        }
        let name = Nonce::fresh().as_str().to_owned();
        let args = ["load-buffer", "-b", &name, "-"].map(Into::into).to_vec();
        let finished = self
            .server
            .start(args, text.as_bytes().to_vec(), self.clock)?;
        self.server.text(finished)?;
        Ok(Some(name))
    }

    /// Looks at the pane, and runs the commands if the judge permits them and the pane is still as it was.
    /// Returns the look before them, or `None` if they are needless.
    fn act(&mut self, moment: Moment, commands: impl Fn(&Look) -> String) -> Result<Option<Look>> {
        for number in 1..=LOOKS_MAX {
            let look = Look::take(self.server, self.pane, self.clock)?;
            let holds_screen = match (self.judge)(moment, &look)? {
                Permission::Needless => return Ok(None),
                Permission::Screen => true,
                Permission::Program => number <= LOOKS_MAX / 2,
            };
            let nonce = Nonce::fresh();
            let mark = nonce.as_str();
            let (pane, condition) = (self.pane, look.condition(holds_screen));
            let list = format!(
                "if-shell -F -t '{pane}' '{condition}' {{ {} ; display-message -p '{mark}t' }} \
                 {{ display-message -p '{mark}o' }}\ndisplay-message -p '{mark}z'\n",
                commands(&look)
            );
            let output = self.server.batch(list, self.clock)?;
            match nonce.sections(&output.text).as_deref() {
                Some([(b't', _), (b'z', _)]) => return Ok(Some(look)),
                Some([(b'o', _), (b'z', _)]) => {}
                _ => {
                    let why = output.errors.trim();
                    return Err(Error::other(format!(
                        "cannot type into {pane} of {}: {}",
                        self.server,
                        if why.is_empty() {
                            "its output has an unexpected form"
                        } else {
                            why
                        }
                    )));
                }
            }
        }
        let pane = self.pane;
        Err(Error::invalid(format!(
            "pane {pane} changes while the keys are about to be typed: try again"
        )))
    }

    /// Presses Enter if the judge permits it.
    fn press_enter(&mut self) -> Result<()> {
        let enter = pressed(&["Enter".to_owned()], self.pane);
        self.act(Moment::Enter, |_| enter.clone())?;
        Ok(())
    }

    /// Waits until the screen shows something new, as it does after a text; returns false after a stop.
    fn shows_text(&self, before: &Look, stop: &Stop) -> Result<bool> {
        let began = self.clock.now();
        let mut next = began + TYPING;
        loop {
            select_biased! {
                recv(stop) -> _ => return Ok(false),
                recv(self.clock.at(next)) -> _ => {}
            }
            let now = self.clock.now();
            let look = Look::take(self.server, self.pane, self.clock)?;
            let is_shown = (&look.rows, look.cursor) != (&before.rows, before.cursor);
            if is_shown || now >= began + ENTER_WITHIN {
                return Ok(true);
            }
            next = (now + LOOK).min(began + ENTER_WITHIN);
        }
    }
}

/// More columns than any terminal has, so that tabs are blanks.
const COLUMNS_MAX: usize = 1_000;

/// The format of the numbers and the program that must stay as they are. No pane id: the pane has just vanished.
const FORMAT: &str =
    "#{pane_pid} #{pane_in_mode} #{pane_dead} #{pane_synchronized} #{pane_current_command}";

impl Look {
    /// Looks at a pane.
    ///
    /// # Errors
    /// `is_invalid_input()` if it cannot read a text now; otherwise those of [`Server::run`].
    fn take(server: &Server, pane: &PaneId, clock: &Clock) -> Result<Self> {
        let nonce = Nonce::fresh();
        let mark = nonce.as_str();
        let list = format!(
            "display-message -p -t '{pane}' '{mark}h#{{pane_id}} #{{cursor_x}} #{{cursor_y}} #{{pane_tty}} #{{alternate_on}} {FORMAT}{mark}r' ; \
             capture-pane -p -e -t '{pane}'\ndisplay-message -p '{mark}z'\n"
        );
        let output = server.batch(list, clock)?;
        match nonce.sections(&output.text).as_deref() {
            Some([(b'h', header), (b'r', rows), (b'z', _)])
                if header.starts_with(pane.as_str()) =>
            {
                Self::parse(pane, header, rows)
            }
            _ => Err(Error::gone(format!("{server} has no pane {pane} any more"))),
        }
    }

    fn parse(pane: &PaneId, header: &str, rows: &str) -> Result<Self> {
        let mut fields = header.splitn(6, ' ').skip(1);
        let mut next = || fields.next().unwrap_or_default();
        let (x, y, tty, alternate, numbers) = (next(), next(), next(), next(), next());
        let cursor = Cursor {
            x: decimal(x).unwrap_or_default(),
            y: decimal(y).unwrap_or_default(),
        };
        let mut states = numbers.splitn(5, ' ');
        let mut next = || states.next().unwrap_or_default();
        let (pid, modes, dead, synchronized, program) = (next(), next(), next(), next(), next());
        let refused = |why: &str| Err(Error::invalid(format!("pane {pane} {why}")));
        if !matches!(modes, "" | "0") {
            return refused(
                "is in copy mode, which would take the text for its keys: leave it first",
            );
        }
        if dead == "1" {
            return refused("has no program any more that could read the text");
        }
        if synchronized == "1" {
            return refused(
                "is synchronized with other panes, which would get the same keys: turn that off first",
            );
        }
        let (rows, styles) = sgr_rows(rows.trim_start_matches('\n'), COLUMNS_MAX);
        Ok(Self {
            pane: pane.clone(),
            pid: decimal(pid).unwrap_or_default(),
            program: program.to_owned(),
            cursor,
            is_full: alternate == "1",
            rows,
            styles,
            takes_lines: takes_lines(tty),
            numbers: numbers.to_owned(),
        })
    }

    /// Returns the lowest row that holds all of these texts beside each other.
    fn row_of(&self, texts: &[&str]) -> Option<usize> {
        let has_all = |row: &String| texts.iter().all(|text| row.contains(text));
        self.rows.iter().rposition(has_all)
    }

    /// Returns true if a row holds all of these texts.
    pub fn are_beside(&self, texts: &[&str]) -> bool {
        self.row_of(texts).is_some()
    }

    /// Returns the one of several texts beside each other that has another background than all others.
    pub fn highlighted<'t>(&self, texts: &[&'t str]) -> Option<&'t str> {
        let row = self.row_of(texts)?;
        let background = |text: &str| {
            let start = self.rows[row].find(text)?;
            let column = self.rows[row].get(..start)?.chars().count();
            let (row, column) = (u32::try_from(row).ok()?, u32::try_from(column).ok()?);
            let mut styles = self.styles.as_slice().iter();
            let style =
                styles.find(|style| style.line == row && (style.from..style.to).contains(&column));
            style.and_then(|style| style.ink.background)
        };
        let is_alone = |text: &&&str| {
            let same = texts
                .iter()
                .filter(|other| background(other) == background(text));
            same.count() == 1
        };
        let mut alone = texts.iter().filter(is_alone);
        alone.next().copied().filter(|_| alone.next().is_none())
    }

    /// Returns a format of tmux that is true while the pane is as it was: the same program reads its input, and with
    /// `holds_screen` the screen has the same rows with text.
    fn condition(&self, holds_screen: bool) -> String {
        let (mut expected, mut present) = (pattern(&self.numbers), FORMAT.to_owned());
        let rows = self.rows.iter().rev().map(|row| pattern(row.trim()));
        let has_text = |row: &String| row.bytes().filter(u8::is_ascii_alphanumeric).count() >= 3;
        let held = if holds_screen { ROWS_MAX } else { 0 };
        if holds_screen {
            let Cursor { x, y } = self.cursor;
            expected.push_str(&format!(" {x} {y} "));
            present.push_str(" #{cursor_x} #{cursor_y} ");
        }
        for row in rows.filter(has_text).take(held) {
            expected.push('1');
            present.push_str(&format!("#{{?#{{C:{row}}},1,0}}"));
        }
        format!("#{{m:{expected},{present}}}")
    }
}

/// Returns true if a terminal collects lines for the program that reads it.
fn takes_lines(tty: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let modes = rustix::fs::open(tty, flags, Mode::empty()).and_then(rustix::termios::tcgetattr);
    modes.is_ok_and(|modes| modes.local_modes.contains(LocalModes::ICANON))
}

/// Returns a pattern of fnmatch(3) for the beginning of a text, without a character that a format, a pattern or a command
/// line of tmux would take for something else.
fn pattern(text: &str) -> String {
    let mut pattern = String::new();
    for c in first_chars(text, ROW_CHARS_MAX).chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' | '.' | '/' | '_' => pattern.push(c),
            c if c.is_ascii() => pattern.push('?'),
            _ if pattern.ends_with('*') => {}
            _ => pattern.push('*'),
        }
    }
    pattern
}

/// Returns true for the name of a key: modifiers, then a name or one printable character.
fn is_key(name: &str) -> bool {
    let mut rest = name;
    while let Some(after) = ["C-", "M-", "S-"]
        .iter()
        .find_map(|modifier| rest.strip_prefix(modifier))
        .filter(|after| !after.is_empty())
    {
        rest = after;
    }
    let function = rest.strip_prefix('F').and_then(decimal);
    let mut chars = rest.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) => !c.is_control(),
        (Some('^'), Some(c)) if chars.next().is_none() => c.is_ascii_graphic(),
        _ => {
            function.is_some_and(|number| (1..=12).contains(&number))
                || KEYS.iter().any(|key| key.eq_ignore_ascii_case(rest))
        }
    }
}

/// Splits a text into parts that are short enough for one command.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let part = first_bytes(rest, BYTES_MAX);
        rest = &rest[part.len()..];
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_short_and_whole() {
        let text = "é".repeat(BYTES_MAX);
        let all: Vec<&str> = parts(&text).collect();
        assert_eq!(all.concat(), text);
        assert!(all.iter().all(|part| part.len() <= BYTES_MAX));
        assert_eq!(parts("").count(), 0);
    }

    #[test]
    fn keys_are_checked() {
        for name in [
            "Up", "enter", "F1", "F12", "C-c", "C-M-x", "M-Enter", "S-Up", "y", "é", ";", "-",
            "^C", "KP7", "C--", "Space", "BTab",
        ] {
            assert!(is_key(name), "{name:?}");
        }
        for name in [
            "",
            "Entr",
            "rm -rf",
            "F0",
            "F13",
            "F+1",
            "C-",
            "C-nothing",
            "\u{1b}",
            "yy",
            "M-",
        ] {
            assert!(!is_key(name), "{name:?}");
        }
        let error = Typing::keys(vec!["Up".into(), "Dwon".into()]).unwrap_err();
        assert!(error.is_invalid_input() && error.to_string().contains("Dwon"));
        assert!(Typing::keys(Vec::new()).is_err());
        assert!(Typing::keys(vec!["y".into(); KEYS_MAX + 1]).is_err());
        assert!(Typing::text("a\0b", true).is_err());
    }

    #[test]
    fn panes_that_cannot_read_are_refused() {
        let pane = PaneId::from("%1");
        let look = Look::parse(&pane, "%1 3 4 /none 1 77 0 0 0 my prog", "\n$ a\n\n").unwrap();
        assert_eq!((look.program.as_str(), look.pid), ("my prog", 77));
        assert!(look.is_full);
        assert_eq!((look.cursor.x, look.cursor.y), (3, 4));
        assert_eq!(look.rows, ["$ a", ""]);
        for (state, why) in [
            ("1 0 0 sh", "copy mode"),
            ("0 1 0 ", "no program"),
            ("0 0 1 sh", "synchronized"),
        ] {
            let error = Look::parse(&pane, &format!("%1 0 0 /none 0 7 {state}"), "").unwrap_err();
            assert!(error.is_invalid_input() && error.to_string().contains(why));
        }
    }

    #[test]
    fn a_condition_has_nothing_that_tmux_would_take_for_syntax() {
        let rows = "\n\u{276f} 1. Yes, 'a' #{b} [y/N]: \\ $HOME \"\n  \n---\n";
        let look = Look::parse(&PaneId::from("%1"), "%1 5 6 /none 0 7 0 0 0 a'}b", rows).unwrap();
        let kept = "#{m:7 0 0 0 a??b,";
        assert_eq!(look.condition(false), format!("{kept}{FORMAT}}}"));
        let held = "* 1. Yes? ?a? ??b? ?y/N?? ? ?HOME ?";
        let expected = format!(
            "{} 5 6 1,{FORMAT} #{{cursor_x}} #{{cursor_y}} #{{?#{{C:{held}}},1,0}}}}",
            kept.trim_end_matches(',')
        );
        assert_eq!(look.condition(true), expected);
    }

    #[test]
    fn a_text_of_several_lines_cannot_end_its_paste() {
        let text = |text: &str| match Typing::text(text, true) {
            Ok(Typing::Text { text, .. }) => Some(text),
            _ => None,
        };
        assert_eq!(text("a\r\nb\tc\n").as_deref(), Some("a\nb\tc"));
        assert_eq!(text("\u{1b}").as_deref(), Some("\u{1b}"));
        assert_eq!(text("a\n\u{1b}[201~rm"), None);
        assert_eq!(text("a\n\u{9b}201~rm"), None);
        assert_eq!(text("a\n\u{7f}"), None);
    }

    proptest! {
        #[test]
        fn any_name_is_judged(name in "\\PC{0,8}|[CMS^F-]{0,5}.{0,2}") {
            let _ = is_key(&name);
        }
    }
}
