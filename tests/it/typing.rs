//! Safe typing in real panes: an answer goes only to the question and the program that it is meant for, and a text of
//! several lines arrives byte for byte.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::cli::{assert_code, text};
use crate::observer::{Home, Reply, post, reply};
use crate::states;
use crate::support::{CEILING, Dice, wait_for};

fn input(home: &Home, pane: &str, body: &Value) -> Reply {
    let path = format!("/api/v1/panes/{}/input", pane.replace('%', "%25"));
    post(&home.socket(), &path, &body.to_string())
}

/// Returns the row of a pane.
fn row(home: &Home, pane: &str) -> Value {
    let (_, rows) = reply(&home.socket(), "GET /api/v1/board HTTP/1.1\r\n\r\n");
    let mut rows = rows.as_array().unwrap().iter();
    let found = rows.find(|row| row["pane"] == pane);
    found.cloned().unwrap_or_default()
}

const ASKER: &str = r#"
n=0
while :; do
  n=$((n + 1))
  printf 'Delete directory build-%s? [y/N] ' $n
  IFS= read -r answer || exit
  echo "got <$answer> for $n"
done"#;

#[test]
fn a_question_is_answered_only_with_its_id() {
    let home = Home::new();
    let script = home.directory().join("asker.sh");
    fs::write(&script, ASKER).unwrap();
    let pane = home
        .server
        .new_session("ask", 70, 12, &format!("exec bash {}", script.display()));
    home.server.wait_for_text(&pane, "build-1?");
    let socket = home.server.socket().display().to_string();
    let wait = |more: &[&str]| {
        let args = [
            "wait",
            "-S",
            &socket,
            "ask",
            "--text",
            "got <",
            "--timeout",
            "10s",
            "--send",
        ];
        home.run(&[&args, more].concat())
    };
    // Without an observer, no question has an id.
    for more in [&["y"][..], &["y", "--answers", "1"]] {
        let refused = wait(more);
        assert_code(&refused, 2);
        assert!(
            text(&refused.stderr).contains("td-observe start"),
            "{refused:?}"
        );
    }
    home.start_with(&["--allow-input"]);
    let first = home.wait_for_row("ask", |row| row["state"] == "waiting");
    let id = first["question_id"].as_str().unwrap();
    for body in [
        json!({"text": "y"}),
        json!({"text": "y", "answers": "old"}),
        json!({"keys": ["y", "Enter"]}),
    ] {
        let (status, problem) = input(&home, &pane, &body);
        assert_eq!(status, 409, "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.contains("build-1?") && detail.contains(id),
            "{detail}"
        );
    }
    let refused = wait(&["y"]);
    assert_code(&refused, 2);
    let said = text(&refused.stderr);
    assert!(said.contains("build-1?") && said.contains(id), "{said}");
    let body = json!({"target": "ask", "text": "got <", "send": "y", "timeout_ms": 9000});
    let (status, problem) = post(&home.socket(), "/api/v1/wait", &body.to_string());
    assert_eq!(status, 409, "{problem}");
    let answers = json!({"target": "ask", "text": "x", "answers": id});
    assert_eq!(
        post(&home.socket(), "/api/v1/wait", &answers.to_string()).0,
        400
    );
    assert!(!home.server.screen(&pane).contains("got"));

    assert_eq!(
        input(&home, &pane, &json!({"text": "yes", "answers": id})).0,
        200
    );
    home.server.wait_for_text(&pane, "got <yes> for 1");
    // The next question is on the screen at once, and on the board a moment later.
    home.server.wait_for_text(&pane, "build-2?");
    for _ in 0..20 {
        let (status, problem) = input(&home, &pane, &json!({"text": "yes", "answers": id}));
        assert_eq!(status, 409, "{problem}");
        let (status, problem) = input(&home, &pane, &json!({"text": "yes"}));
        assert_eq!(status, 409, "{problem}");
    }
    let second = home.wait_for_row("ask", |row| {
        row["question_id"].is_string() && row["question_id"] != id
    });
    let id = second["question_id"].as_str().unwrap();
    assert_code(&wait(&["no", "--answers", id]), 0);
    home.server.wait_for_text(&pane, "got <no> for 2");
    let screen = home.server.screen(&pane);
    assert_eq!(screen.matches("got <").count(), 2, "{screen}");
}

#[test]
fn no_prompt_is_typed_into_a_menu() {
    let home = Home::new();
    let pane = home
        .server
        .new_session("agent", 70, 20, &states::claude(&home.server));
    home.start_with(&["--allow-input"]);
    home.wait_for_row("agent", |row| row["state"] == "idle");
    states::set_state(&home.server, &pane, "menu");
    home.server.wait_for_text(&pane, "Pick a session");
    let (status, problem) = input(&home, &pane, &json!({"text": "hello"}));
    assert_eq!(status, 409, "{problem}");
    let asked = home.run(&["ask", "agent", "hello", "--timeout", "5s"]);
    assert_code(&asked, 2);
    let said = text(&asked.stderr);
    assert!(said.contains("shows no input box"), "{said}");
    // Keys leave the menu.
    assert_eq!(input(&home, &pane, &json!({"keys": ["Escape"]})).0, 200);
    let screen = home.server.screen(&pane);
    assert!(!screen.contains("hello"), "{screen}");
}

/// A script that a shell runs reads lines, so that a single letter needs Enter.
#[test]
fn a_letter_for_a_script_is_a_line() {
    let home = Home::new();
    let script = home.directory().join("asker.sh");
    fs::write(&script, ASKER).unwrap();
    let pane = home
        .server
        .new_session("ask", 70, 12, "PS1='$ ' exec bash --norc");
    home.server.wait_for_text(&pane, "$");
    home.start_with(&["--allow-input"]);
    home.wait_for_row("ask", |row| row["state"] == "idle");
    let command = format!("bash {}", script.display());
    home.server
        .tmux(&["send-keys", "-t", &pane, &command, "Enter"]);
    let row = home.wait_for_row("ask", |row| {
        row["question_id"].is_string() && row["agent"] == "asker.sh"
    });
    let id = &row["question_id"];
    let (status, problem) = input(&home, &pane, &json!({"text": "y", "answers": id}));
    assert_eq!(status, 200, "{problem}");
    home.server.wait_for_text(&pane, "got <y> for 1");
}

/// Draws the dialogue of an agent. `j` selects the next choice, and a digit chooses.
const MENU: &str = r#"
import os, sys, tty
tty.setraw(0)
chosen, labels = 0, ["Yes", "Yes, and always allow access to this very long path of a project that", "No"]
def draw():
    rows = ["\u2500" * 60, " Bash command", "", "   touch /tmp/a; echo Untrusted Command Flags", "", " Do you want to proceed?"]
    for n, label in enumerate(labels):
        mark = "\u276f" if n == chosen else " "
        rows.append(f" {mark} {n + 1}. {label}")
        if n == 1: rows.append("      is asked about")
    rows += ["", " Esc to cancel \u00b7 Tab to amend"]
    os.write(1, ("\x1b[2J\x1b[H" + "\r\n".join(rows)).encode())
draw()
while True:
    key = os.read(0, 1).decode()
    if key == "j":
        chosen = (chosen + 1) % 3
        draw()
    else:
        os.write(1, f"\x1b[2J\x1b[Hchose <{key}>".encode())
"#;

#[test]
fn a_dialogue_is_on_the_board_and_a_choice_is_its_key_or_its_label() {
    let home = Home::new();
    let script = home.directory().join("menu.py");
    fs::write(&script, MENU).unwrap();
    home.server.new_session("keep", 80, 20, "exec cat");
    home.start_with(&["--allow-input"]);
    let program = format!("exec python3 {}", script.display());
    let pane = home.server.new_session("menu", 80, 24, &program);
    let row = home.wait_for_row("menu", |row| row["dialogue"].is_object());
    let choice = |key: &str, label: &str, selected: bool| json!({"key": key, "label": label, "selected": selected});
    let long =
        "Yes, and always allow access to this very long path of a project that is asked about";
    let dialogue = |chosen| {
        json!({
            "text": "Bash command\n\n  touch /tmp/a; echo Untrusted Command Flags\n\nDo you want to proceed?",
            "choices": [choice("1", "Yes", chosen == 0), choice("2", long, chosen == 1), choice("3", "No", chosen == 2)],
        })
    };
    assert_eq!(row["dialogue"], dialogue(0));
    let id = &row["question_id"];
    // What is no choice would be taken for keys, and Enter for a yes.
    for text in ["no, leave it", "7", "n"] {
        let (status, problem) = input(&home, &pane, &json!({"text": text, "answers": id}));
        assert_eq!(status, 409, "{problem}");
        assert!(
            problem["detail"].as_str().unwrap().contains("1 Yes"),
            "{problem}"
        );
    }
    assert!(!home.server.screen(&pane).contains("chose"));
    // Somebody at the pane selects another choice: the question is the same.
    home.server.tmux(&["send-keys", "-t", &pane, "j"]);
    let moved = home.wait_for_row("menu", |row| row["dialogue"] == dialogue(1));
    assert_eq!(&moved["question_id"], id);
    // The board does not have what Enter would choose now.
    home.server.tmux(&["send-keys", "-t", &pane, "j"]);
    let (status, problem) = input(&home, &pane, &json!({"text": "No", "answers": id}));
    assert!(status == 200 || status == 409, "{problem}");
    if status == 409 {
        home.wait_for_row("menu", |row| row["dialogue"] == dialogue(2));
        let (status, problem) = input(&home, &pane, &json!({"text": "no", "answers": id}));
        assert_eq!(status, 200, "{problem}");
    }
    home.server.wait_for_text(&pane, "chose <3>");
    let logged = home.run(&["log", "--type", "AgentState"]);
    let words = text(&logged.stdout);
    assert_eq!(words.matches("waits for you").count(), 1, "{words}");
    let logged = home.run(&["log", "--type", "AgentState", "--json"]);
    assert!(
        text(&logged.stdout).contains(r#""again":true"#),
        "{logged:?}"
    );
}

/// Draws a dialogue of opencode, in which only a colour shows the selected choice. `l` and Right select the next one, and
/// `d` asks again.
const BUTTONS: &str = r#"
import os, re, sys, tty
tty.setraw(0)
chosen, labels = 0, ["Allow once", "Allow always", "Reject"]
def draw():
    cells = [f"\x1b[48;5;215m{label}\x1b[0m" if n == chosen else label for n, label in enumerate(labels)]
    bar = "  \u2503"
    rows = ["", bar, bar + "  \u25b3 Permission required", bar + "    # Shell command", bar, bar + "  $ touch a", bar,
            bar + "   " + "   ".join(cells) + "      ctrl+f fullscreen  \u21c6 select  enter confirm", bar]
    os.write(1, ("\x1b[2J\x1b[H" + "\r\n".join(rows)).encode())
draw()
while True:
    for key in re.findall(rb"\x1b\[C|.", os.read(0, 64), re.DOTALL):
        if key in (b"l", b"\x1b[C"):
            chosen = (chosen + 1) % 3
            draw()
        elif key == b"d":
            chosen = 0
            draw()
        else:
            name = labels[chosen] if key == b"\r" else key
            os.write(1, f"\x1b[2J\x1b[Hchose <{name}>".encode())
"#;

#[test]
fn enter_is_pressed_only_on_the_choice_that_the_board_names() {
    let home = Home::new();
    let script = home.directory().join("buttons.py");
    fs::write(&script, BUTTONS).unwrap();
    home.server.new_session("keep", 80, 20, "exec cat");
    home.start_with(&["--allow-input"]);
    let program = format!("exec python3 {}", script.display());
    let pane = home.server.new_session("buttons", 100, 24, &program);
    let row = home.wait_for_row("buttons", |row| row["dialogue"].is_object());
    let keys: Vec<&Value> = row["dialogue"]["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| &choice["key"])
        .collect();
    assert_eq!(keys, ["Enter", "Right Enter", "Escape"]);
    let id = &row["question_id"];
    // Somebody at the pane selects another choice, which no text shows.
    home.server.tmux(&["send-keys", "-t", &pane, "l"]);
    let highlighted = || home.server.tmux(&["capture-pane", "-p", "-e", "-t", &pane]);
    wait_for("the other choice", CEILING, || {
        let screen = highlighted();
        let is_moved = screen.contains("215mAllow always");
        is_moved.then_some(()).ok_or(screen)
    });
    for body in [
        json!({"text": "Allow once", "answers": id}),
        json!({"text": "Allow always", "answers": id}),
        json!({"keys": ["Enter"], "answers": id}),
    ] {
        let (status, problem) = input(&home, &pane, &body);
        assert_eq!(status, 409, "{problem}");
        assert!(
            problem["detail"].as_str().unwrap().contains("Allow always"),
            "{problem}"
        );
    }
    home.server.tmux(&["send-keys", "-t", &pane, "ll"]);
    wait_for("the first choice", CEILING, || {
        let screen = highlighted();
        let is_back = screen.contains("215mAllow once");
        is_back.then_some(()).ok_or(screen)
    });
    let (status, problem) = input(&home, &pane, &json!({"text": "allow once", "answers": id}));
    assert_eq!(status, 200, "{problem}");
    home.server.wait_for_text(&pane, "chose <Allow once>");
    // A choice that takes two keys.
    home.server.tmux(&["send-keys", "-t", &pane, "d"]);
    home.server.wait_for_text(&pane, "Allow always");
    let always = json!({"text": "Allow always", "answers": id});
    // The question has the same id again: it may not be a press that came twice.
    wait_for("an answer that counts", CEILING, || {
        match input(&home, &pane, &always) {
            (200, _) => Ok(()),
            refused => Err(refused),
        }
    });
    home.server.wait_for_text(&pane, "chose <Allow always>");
}

/// A program that takes a text of a few lines to its end, and stores it.
fn readers(directory: &Path) -> HashMap<&'static str, String> {
    let reader = directory.join("reader.py");
    fs::write(
        &reader,
        r#"
import os, sys, tty
tty.setraw(0)
os.write(1, (b"\x1b[?2004h" if sys.argv[2] == "pastes" else b"") + b"ready")
data = b""
while not data.endswith(b"END\r") and not data.endswith(b"END\x1b[201~\r"):
    data += os.read(0, 65536)
open(sys.argv[1], "wb").write(data)
os.write(1, b"stored")
os.read(0, 1)
"#,
    )
    .unwrap();
    let read = |how: &str| {
        let file = directory.join(how);
        format!("exec python3 {} {} {how}", reader.display(), file.display())
    };
    [("raw", read("raw")), ("pastes", read("pastes"))].into()
}

#[test]
fn a_text_of_several_lines_arrives_byte_for_byte() {
    let home = Home::new();
    let directory = home.directory().to_owned();
    let server = &home.server;
    let shell = server.new_session("sh", 80, 20, "PS1='$ ' exec bash --norc --noprofile -i");
    let python = server.new_session("py", 80, 20, "exec python3 -q");
    server.wait_for_text(&shell, "$");
    server.wait_for_text(&python, ">>>");
    home.start_with(&["--allow-input"]);
    let send = |pane: &str, text: &str| {
        let (status, problem) = input(&home, pane, &json!({"text": text}));
        assert_eq!(status, 200, "{problem}");
    };
    let mut dice = Dice(40);
    for lines in [1, 2, 3, 40, 200] {
        let hard = ["a\tb", "'\"$x`y`", "\\ %H #S {};", "é 漢 🦀", "", "-l --"];
        let mut line = |number| {
            let hard = hard[dice.roll(hard.len() as u64) as usize];
            format!("{number} {hard} end")
        };
        let all: Vec<String> = (0..lines).map(&mut line).collect();
        let stored = |path: &Path, expected: &str| {
            wait_for("the stored text", CEILING, || {
                let stored = fs::read_to_string(path).unwrap_or_default();
                if stored == expected {
                    Ok(())
                } else {
                    Err((stored, expected.to_owned()))
                }
            });
        };
        let text = all.join("\n") + "\n";
        let file = directory.join(format!("bash-{lines}"));
        send(&shell, &format!("cat > {} <<'E'\n{text}E", file.display()));
        stored(&file, &text);

        // Python 3.11 does not ask for bracketed paste: each line is one of its own.
        let file = directory.join(format!("python-{lines}"));
        let write = |line: &String| format!(" f.write({:?})\n", line.replace('\t', " ") + "\n");
        let body: String = all.iter().map(write).collect();
        send(
            &python,
            &format!(
                "with open({:?}, 'w') as f:\n{body} f.close()\n\n",
                file.display()
            ),
        );
        stored(&file, &text.replace('\t', " "));

        for (how, program) in readers(&directory) {
            let pane = server.new_session(&format!("{how}-{lines}"), 80, 20, &program);
            server.wait_for_text(&pane, "ready");
            send(&pane, &format!("{text}END"));
            server.wait_for_text(&pane, "stored");
            let typed = format!("{text}END").replace('\n', "\r");
            let typed = match how {
                "pastes" => format!("\u{1b}[200~{typed}\u{1b}[201~\r"),
                _ => typed + "\r",
            };
            stored(&directory.join(how), &typed);
        }
    }
    let ended = json!({"text": "a\n\u{1b}[201~rm"});
    assert_eq!(input(&home, &shell, &ended).0, 400);
}

/// A program that asks one question after another, each for a moment, and ends in several ways.
const RACER: &str = r#"
now() { date +%s%N; }
n=$(cat n 2>/dev/null || echo 0)
while :; do
  n=$((n + 1)); echo $n >n
  printf 'Delete directory build-%s? [y/N] ' $n
  echo "$n $(now)" >>questions
  [ $((RANDOM % 5)) = 0 ] && { sleep $((RANDOM % 2)).$((RANDOM % 10)); now >>deaths; kill -9 $$; } 2>/dev/null &
  if IFS= read -r -t $((RANDOM % 3)).$((RANDOM % 4 + 6)) answer; then echo "$n $answer" >>answers; fi
  echo
  case $((RANDOM % 8)) in
    0) now >>deaths; kill -9 $$;;
    1) now >>deaths; exit;;
    2) now >>deaths; kill -TSTP $$;;
  esac
done"#;

/// A shell that records what it is told to run.
const RECORDER: &str = r#"
PS1='$ '
command_not_found_handle() { echo "$1" >>commands; }"#;

/// What races have shown.
#[derive(Debug, Default)]
struct Races {
    typed: usize,
    refused: usize,
    /// Answers whose program ended, or whose question was followed by another, within 50 ms after the keys.
    within_50_ms: usize,
    wrong: Vec<String>,
}

fn nanos() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos()
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns the longest time for this many races.
fn count_ceiling(count: usize) -> Duration {
    Duration::from_secs(10) * u32::try_from(count).unwrap()
}

/// Answers a question in a pane with a text: its pane, the text and the id of the question. Returns if it was typed, or
/// the problem, if it was neither typed nor refused.
pub type Answer = Box<dyn FnMut(&str, &str, &str) -> Result<bool, String> + Send>;

/// Races in one pane.
fn race(home: &Home, (lane, mut answer_with): (usize, Answer), count: usize) -> Races {
    let directory = home.directory().join(format!("lane-{lane}"));
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("racer.sh"), RACER).unwrap();
    fs::write(directory.join("rc"), RECORDER).unwrap();
    let shell = format!("cd {} && exec bash --rcfile rc -i", directory.display());
    let pane = home
        .server
        .new_session(&format!("lane-{lane}"), 80, 20, &shell);
    home.server.wait_for_text(&pane, "$");
    let (mut dice, mut races) = (Dice(lane as u64 + 40), Races::default());
    let mut sent: HashMap<String, (u128, u128)> = HashMap::new();
    let mut tries = 0;
    let began = Instant::now();
    while races.typed + races.refused < count && began.elapsed() < count_ceiling(count) {
        tries += 1;
        let row = row(home, &pane);
        // The board may lag behind a question.
        let screen = home.server.screen(&pane);
        if screen.trim_end().lines().next_back() == Some("$") {
            let again = "clear; kill -9 %+ 2>/dev/null; bash racer.sh";
            home.server
                .tmux(&["send-keys", "-t", &pane, again, "Enter"]);
            thread::sleep(Duration::from_millis(400));
            continue;
        }
        let (Some(id), Some(asks)) = (row["question_id"].as_str(), row["asks"].as_str()) else {
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        let number: String = asks.chars().filter(char::is_ascii_digit).collect();
        thread::sleep(Duration::from_millis(dice.roll(500)));
        let (answer, before) = (format!("answer-{number}-{tries}"), nanos());
        match answer_with(&pane, &answer, id) {
            Ok(true) => {
                races.typed += 1;
                sent.insert(answer, (before, nanos()));
            }
            Ok(false) => races.refused += 1,
            Err(problem) => races.wrong.push(problem),
        }
    }
    thread::sleep(Duration::from_millis(500));
    let times = |file: &str| -> Vec<u128> {
        let time = |line: String| line.rsplit(' ').next()?.parse().ok();
        lines(&directory.join(file))
            .into_iter()
            .filter_map(time)
            .collect()
    };
    let (deaths, questions) = (times("deaths"), times("questions"));
    // The number of a question in an answer, and whether the keys came just before an end.
    let mut judge = |answer: &str, got: &str, ends: &[u128]| {
        // A program that stops to read within an answer has taken its beginning.
        let of = sent.iter().find(|(sent, _)| sent.ends_with(answer));
        let is_late = of.is_some_and(|(_, (from, to))| {
            ends.iter()
                .any(|end| (*from..to + 50_000_000).contains(end))
        });
        if is_late {
            races.within_50_ms += 1;
        } else {
            races.wrong.push(format!("{answer:?} {got}"));
        }
    };
    for line in lines(&directory.join("commands")) {
        judge(&line, "ran in the shell", &deaths);
    }
    for line in lines(&directory.join("answers")) {
        let (number, answer) = line.split_once(' ').unwrap();
        if !answer.starts_with(&format!("answer-{number}-")) {
            judge(answer, &format!("answered question {number}"), &questions);
        }
    }
    races
}

/// Questions, answers, deaths and sends race, at least `count` times, in as many panes as there are ways to answer.
/// `TD_TYPING_RACES` sets another number.
pub fn race_all(home: &Home, answers: Vec<Answer>, count: usize) {
    let given = std::env::var("TD_TYPING_RACES").ok();
    let count: usize = given.map_or(count, |count| count.parse().unwrap());
    let lanes = answers.len();
    let all: Vec<Races> = thread::scope(|scope| {
        let race = |lane| scope.spawn(move || race(home, lane, count.div_ceil(lanes)));
        let running: Vec<_> = answers.into_iter().enumerate().map(race).collect();
        running
            .into_iter()
            .map(|lane| lane.join().unwrap())
            .collect()
    });
    let sum = |of: fn(&Races) -> usize| all.iter().map(of).sum::<usize>();
    let (typed, refused) = (sum(|races| races.typed), sum(|races| races.refused));
    let late = sum(|races| races.within_50_ms);
    let counts = format!("{typed} typed, {refused} refused, {late} within 50 ms of an end\n");
    // Past the capture of the test's output.
    std::io::stderr().write_all(counts.as_bytes()).unwrap();
    let wrong: Vec<&String> = all.iter().flat_map(|races| &races.wrong).collect();
    assert!(
        wrong.is_empty(),
        "{typed} typed, {refused} refused: {wrong:#?}"
    );
    assert!(
        typed >= count / 10 && refused >= count / 10,
        "{typed} typed, {refused} refused"
    );
}

#[test]
fn no_answer_reaches_another_question_or_process() {
    let home = Arc::new(Home::new());
    home.server.new_session("keep", 80, 20, "exec cat");
    home.start_with(&["--allow-input"]);
    let answers = (0..4).map(|_| {
        let home = Arc::clone(&home);
        let answer: Answer = Box::new(move |pane, text, id| {
            let (status, problem) = input(&home, pane, &json!({"text": text, "answers": id}));
            match status {
                200 => Ok(true),
                409 => Ok(false),
                _ => Err(format!("{status} {problem}")),
            }
        });
        answer
    });
    race_all(&home, answers.collect(), 100);
}
