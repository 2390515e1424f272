//! Random terminal programs: possible output of a program, and actions of a user on its pane meanwhile.

use crate::support::Dice;

/// One step of a program.
#[derive(Clone, Debug)]
pub enum Step {
    /// The program prints.
    Print(Vec<u8>),
    /// The pane gets another size.
    Resize(u32, u32),
    /// `send-keys -R`.
    Reset,
    /// `clear-history`.
    ClearHistory,
    /// The option `alternate-screen`.
    Alternates(bool),
    /// The pane rests, and is compared with tmux.
    Rest,
}

/// A pane's size and the steps of its program.
#[derive(Clone, Debug)]
pub struct Program {
    pub width: u32,
    pub height: u32,
    pub steps: Vec<Step>,
}

const WORDS: &[&str] = &[
    "cargo",
    "error:",
    "src/main.rs:12",
    "ok",
    "warning",
    "Compiling",
    "100%",
    "[====>   ]",
    "-",
    "$ ",
    "e\u{301}te\u{301}",
    "日本語",
    "漢字かな",
    "한국어",
    "\u{1112}\u{1161}\u{11ab}",
    "العربية",
    "हिन्दी",
    "ไทย",
    "👍",
    "👍🏽",
    "👩‍👩‍👧‍👦",
    "❤️",
    "☎️",
    "🇩🇪",
    "🇩🇪🇫🇷",
    "🏳️‍🌈",
    "☝🏿",
    "✈",
    "🫨",
    "🪿",
    "\u{1fae9}",
    "\u{1fac6}",
    "\u{ad}",
    "\u{200b}",
    "\u{2028}",
    "\u{2029}",
    "\u{3164}",
    "\u{ffa0}",
    "\u{115f}",
    "\u{fdd0}",
    "\u{fffe}",
    "\u{378}",
    "\u{e000}",
    "\u{feff}",
    "\u{200d}",
    "\u{fe0f}",
    "\u{85}",
    "\u{9b}",
    "─│┌┐",
    "▁▂█",
    "½",
    "…",
    "“”",
    "ﬁ",
    "ﷺ",
    "\u{1f468}\u{1f3fb}",
    "\u{1f3fb}",
    "\u{e0101}",
    "\u{e0067}",
    "\u{1d165}",
    "𝒳",
    "\u{20000}",
    "\u{323b0}",
    "\u{16ff2}",
    "\u{10ffff}",
    "\u{2e80}",
    "①",
    "\u{4dc0}",
    "\u{a8e0}",
];

const INVALID: &[&[u8]] = &[
    b"\xff",
    b"\xc0\xaf",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xed\xa0\x80",
    b"\x80",
    b"\xbf\xbf",
    b"\xc3",
    b"\xf5\x80\x80\x80",
    b"\xe2\x28\xa1",
    b"\xf0\x90\x28\xbc",
    b"\x9b31m",
    b"\x90q",
    b"\x9c",
    b"\xe2\x82\x1b[m",
    b"\xc3\n",
    b"\xf4\x90\x80\x80",
    b"\xe0\x80\xaf",
];

impl Program {
    pub fn random(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5555);
        dice.roll(2);
        let (width, height) = size(&mut dice);
        // Each program has its own style with a part of the features, so that differences can be
        // attributed.
        let style = Style {
            scripts: dice.roll(3) == 0,
            invalid: dice.roll(4) == 0,
            draws: dice.roll(2) == 0,
            outside: dice.roll(3) == 0,
        };
        let mut steps = Vec::new();
        for _ in 0..1 + dice.roll(6) {
            let mut bytes = Vec::new();
            for _ in 0..dice.roll(40) {
                style.print(&mut dice, &mut bytes, width, height);
            }
            steps.push(Step::Print(bytes));
            let outside = match dice.roll(12) {
                0 => {
                    let (width, height) = size(&mut dice);
                    Step::Resize(width, height)
                }
                1 | 2 => Step::Reset,
                3 => Step::ClearHistory,
                4 => Step::Alternates(dice.roll(2) == 0),
                _ => Step::Rest,
            };
            if style.outside || matches!(outside, Step::Rest) {
                steps.push(outside);
            }
        }
        // The end of a program that was interrupted in the middle of a sequence.
        if dice.roll(2) == 0 {
            steps.push(Step::Print(b"\x18\x1b\\\x1b[?1049l\x1b[r".to_vec()));
        }
        Self {
            width,
            height,
            steps,
        }
    }
}

fn size(dice: &mut Dice) -> (u32, u32) {
    match dice.roll(4) {
        0 => (2 + dice.roll(12) as u32, 2 + dice.roll(6) as u32),
        _ => (10 + dice.roll(70) as u32, 3 + dice.roll(22) as u32),
    }
}

struct Style {
    scripts: bool,
    invalid: bool,
    /// Prints sequences that move, erase and scroll.
    draws: bool,
    outside: bool,
}

impl Style {
    fn print(&self, dice: &mut Dice, out: &mut Vec<u8>, width: u32, height: u32) {
        match dice.roll(20) {
            0..=7 => self.text(dice, out),
            8..=12 => out.extend(b"\r\n"),
            13 => out.push(b'\t'),
            14 => out.push(b"\r\x08\n\x0b\x0c\x07\0\x7f\x0e\x0f"[dice.roll(10) as usize]),
            15 => {
                // More than a row.
                let length = dice.roll(3 * u64::from(width)) as usize;
                let letter = b'a' + dice.roll(26) as u8;
                out.extend(std::iter::repeat_n(letter, length));
            }
            16 => {
                for line in 0..dice.roll(2 * u64::from(height) + 1) {
                    out.extend(format!("line {line}\r\n").bytes());
                }
            }
            _ if self.draws => sequence(dice, out, width, height),
            17 => out.extend(format!("\x1b[{}m", dice.roll(50)).bytes()),
            _ => self.text(dice, out),
        }
    }

    fn text(&self, dice: &mut Dice, out: &mut Vec<u8>) {
        if self.invalid && dice.roll(4) == 0 {
            out.extend(INVALID[dice.roll(INVALID.len() as u64) as usize]);
        }
        let words = if self.scripts { WORDS.len() } else { 10 };
        for _ in 0..1 + dice.roll(4) {
            out.extend(WORDS[dice.roll(words as u64) as usize].bytes());
            if dice.roll(3) == 0 {
                out.push(b' ');
            }
        }
        if self.scripts && dice.roll(30) == 0 {
            // Any character.
            let one = char::from_u32(dice.roll(0x11_0000) as u32).filter(|one| *one >= ' ');
            out.extend(one.unwrap_or('x').to_string().bytes());
        }
    }
}

/// Appends one sequence, known or not, complete or not.
fn sequence(dice: &mut Dice, out: &mut Vec<u8>, width: u32, height: u32) {
    let n = |dice: &mut Dice| match dice.roll(8) {
        0 => String::new(),
        1 => "0".to_owned(),
        2..=4 => (1 + dice.roll(4)).to_string(),
        5 => dice.roll(u64::from(width) + 3).to_string(),
        6 => dice.roll(u64::from(height) + 3).to_string(),
        _ => (dice.roll(3) * 500).to_string(),
    };
    let text = match dice.roll(24) {
        0 | 1 => format!("\x1b[{};{}H", n(dice), n(dice)),
        2 => format!("\x1b[{}{}", n(dice), pick(dice, "ABCDEFG`dfsu")),
        3 => format!("\x1b[{}J", pick(dice, "0123")),
        4 => format!("\x1b[{}K", pick(dice, "012")),
        5 => format!("\x1b[{}{}", n(dice), pick(dice, "@PX")),
        6 => format!("\x1b[{}{}", n(dice), pick(dice, "LM")),
        7 => format!("\x1b[{}{}", n(dice), pick(dice, "ST")),
        8 => format!("\x1b[{};{}r", n(dice), n(dice)),
        9 => format!("\x1b[{}b", n(dice)),
        10 => format!(
            "\x1b[?{}{}",
            [1049, 47, 1047, 1049][dice.roll(4) as usize],
            pick(dice, "hl")
        ),
        11 => format!(
            "\x1b[?{}{}",
            [6, 7, 25, 3, 2004, 1, 12][dice.roll(7) as usize],
            pick(dice, "hl")
        ),
        12 => format!("\x1b[4{}", pick(dice, "hl")),
        13 => format!("\x1b{}", pick(dice, "78DEMH")),
        14 => format!("\x1b[{}g", pick(dice, "03")),
        15 => format!("\x1b[{}{}", n(dice), pick(dice, "ZI")),
        16 => match dice.roll(4) {
            0 => "\x1bc".to_owned(),
            1 => "\x1b#8".to_owned(),
            2 => "\x1b(0".to_owned(),
            _ => "\x1b(B".to_owned(),
        },
        17 => format!(
            "\x1b]{};title{}",
            pick(dice, "0258"),
            ["\x07", "\x1b\\"][dice.roll(2) as usize]
        ),
        18 => format!("\x1bP{}q#0;2{}\x1b\\", n(dice), n(dice)),
        19 => match dice.roll(3) {
            0 => "\x1b_apc\x1b\\".to_owned(),
            1 => "\x1bkname\x1b\\".to_owned(),
            _ => "\x1b^pm\x1b\\".to_owned(),
        },
        20 => format!("\x1b[{};{}m", n(dice), 40 + dice.roll(10)),
        21 => "\x1b[H\x1b[J".to_owned(),
        // Cut within a sequence.
        22 => ["\x1b[3", "\x1b[?", "\x1b", "\x1b(", "\x1b[;;"][dice.roll(5) as usize].to_owned(),
        _ => format!(
            "\x1b[{};{}{}",
            n(dice),
            n(dice),
            pick(dice, "abcdefghijklmnopqrstuvwxyz")
        ),
    };
    out.extend(text.bytes());
}

fn pick(dice: &mut Dice, from: &str) -> char {
    let at = dice.roll(from.len() as u64) as usize;
    char::from(from.as_bytes()[at])
}
