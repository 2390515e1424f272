//! Lines of resized panes arrive once, in order.

use super::*;

/// Returns the changes, without the text of lines.
pub(super) fn brief(changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        match change {
            Change::Lines { first_line, chunk } => {
                write!(text, "lines {first_line}+{} ", chunk.lines().count())
            }
            Change::Revised { line, text: new } => write!(text, "revised {line} {new:?} "),
            Change::Gap { first_line, .. } => write!(text, "gap {first_line} "),
            Change::Screen { .. } => write!(text, "screen "),
        }
        .unwrap();
    }
    text
}

/// Numbered lines of varying length.
fn lines(dice: &mut Dice, numbers: RangeInclusive<usize>, longest: u64) -> Vec<String> {
    numbers
        .map(|number| {
            let mut line = format!("{number}:");
            for word in 0..dice.roll(longest) / 4 {
                write!(line, "{:03}.", (number as u64 + 37 * word) % 1000).unwrap();
            }
            line
        })
        .collect()
}

/// Runs a script once the stream has begun; its earlier output is part of the baseline.
fn start(server: &TmuxServer, size: (u32, u32), script: &str) -> String {
    fs::write(server.directory().join("program"), script).unwrap();
    let command = format!("cd '{}' && exec sh program", server.directory().display());
    let pane = server.new_session("resizes", size.0, size.1, &command);
    server.script("set-option -g window-size manual");
    pane
}

const DONE: &str = "tmux set-option -g @done 1; exec cat\n";

/// Sync points and resizes while a program prints as fast as it can; nothing is captured before the end.
#[test]
fn lines_of_a_flood_arrive_once_through_resizes() {
    for seed in seeds(1) {
        let mut dice = Dice(seed);
        let printed = lines(&mut dice, 1..=200_000, 300);
        let server = TmuxServer::new();
        let text: String = printed.iter().map(|line| format!("{line}\n")).collect();
        fs::write(server.directory().join("lines"), text).unwrap();
        let pane = start(&server, (80, 24), &format!("cat lines; {DONE}"));
        // In the middle of the flood.
        wait_for("the flood", CEILING, || {
            match server.pane(&pane).history_size {
                0..300 => Err(()),
                _ => Ok(()),
            }
        });
        let mut streamed = Streamed::open(&server, &pane);
        for _ in 0..RESIZES {
            streamed.resize((10 + dice.roll(150) as u32, 2 + dice.roll(60) as u32));
            streamed.take();
        }
        streamed.finish();
        let gaps = streamed.check_lines(seed, &printed);
        assert_eq!(gaps, 0, "seed {seed}\n{}", streamed.describe());
        let damaged = streamed.check_text(seed, &printed);
        eprintln!("seed {seed}: flood, {damaged} lines damaged by tmux");
    }
}

/// A few dozen lines a second, longer than the pane is wide, some of them printed in two pieces.
fn print_slowly(seed: u64, sizes: impl Fn(&mut Dice) -> (u32, u32)) {
    let mut dice = Dice(seed);
    let printed = lines(&mut dice, 1..=300, 240);
    let server = TmuxServer::new();
    let mut script = String::new();
    for (number, line) in printed.iter().enumerate() {
        let cut = if dice.roll(4) == 0 {
            dice.roll(line.len() as u64 + 1) as usize
        } else {
            0
        };
        let (begin, end) = line.split_at(cut);
        if cut > 0 {
            writeln!(script, "printf %s '{begin}'; sleep 0.07").unwrap();
        }
        writeln!(
            script,
            "printf '%s\\n' '{end}'; sleep 0.0{}",
            2 + dice.roll(8)
        )
        .unwrap();
        if number == 20 {
            script.push_str("tmux wait-for -S begun\n");
        }
    }
    script.push_str(DONE);
    let pane = start(&server, (80, 24), &script);
    server.tmux(&["wait-for", "begun"]);
    let mut streamed = Streamed::open(&server, &pane);
    for _ in 0..RESIZES {
        streamed.resize(sizes(&mut dice));
        streamed.go_on(Duration::from_millis(dice.roll(400)));
    }
    streamed.finish();
    let gaps = streamed.check_lines(seed, &printed);
    let damaged = streamed.check_text(seed, &printed);
    let seats = streamed.story.len();
    eprintln!(
        "seed {seed}: {seats} seams, {} seemed late, {gaps} gaps, {damaged} lines damaged by tmux",
        streamed.false_alarms
    );
}

#[test]
fn long_lines_arrive_once_through_resizes() {
    for seed in seeds(1) {
        print_slowly(seed, |dice| match dice.roll(4) {
            0 => (2 + dice.roll(14) as u32, 1 + dice.roll(4) as u32),
            _ => (10 + dice.roll(150) as u32, 2 + dice.roll(60) as u32),
        });
    }
}

#[test]
fn lines_arrive_once_through_changes_of_height() {
    for seed in seeds(1) {
        print_slowly(seed, |dice| (80, 2 + dice.roll(60) as u32));
    }
}

/// A full-screen program starts and ends, and redraws again and again; lines are printed in between.
#[test]
fn a_full_screen_program_is_resized() {
    for seed in seeds(1) {
        let mut dice = Dice(seed);
        let printed = lines(&mut dice, 1..=200, 120);
        let mut script = String::from("printf 'ready\\n'; tmux wait-for go\n");
        for (number, some) in printed.chunks(5).enumerate() {
            for line in some {
                writeln!(script, "printf '%s\\n' '{line}'").unwrap();
            }
            script.push_str("sleep 0.05; printf '\\033[?1049h'\n");
            for draw in 0..dice.roll(8) {
                writeln!(
                    script,
                    "printf '\\033[H\\033[2Jscreen {number}\\r\\n\\033[{};{}Hdraw {draw}'; sleep 0.0{}",
                    1 + dice.roll(20),
                    1 + dice.roll(30),
                    2 + dice.roll(6)
                )
                .unwrap();
            }
            script.push_str("printf '\\033[?1049l'\n");
        }
        script.push_str("printf '\\033[?1049h\\033[Hlast screen'; ");
        script.push_str(DONE);
        let server = TmuxServer::new();
        let pane = start(&server, (80, 24), &script);
        server.wait_for_text(&pane, "ready");
        let mut streamed = Streamed::open(&server, &pane);
        server.tmux(&["wait-for", "-S", "go"]);
        for _ in 0..RESIZES {
            streamed.resize((20 + dice.roll(100) as u32, 3 + dice.roll(40) as u32));
            streamed.go_on(Duration::from_millis(dice.roll(300)));
        }
        streamed.finish();
        let gaps = streamed.check_lines(seed, &printed);
        let mut rows: BTreeMap<u32, &str> = BTreeMap::new();
        for change in &streamed.changes {
            if let Change::Screen { rows: changed, .. } = change {
                rows.extend(changed.iter().map(|row| (row.row, &*row.text)));
            }
        }
        assert_eq!(rows.get(&0), Some(&"last screen"), "seed {seed}");
        eprintln!("seed {seed}: {} seams, {gaps} gaps", streamed.story.len());
    }
}
