//! `td-observe kernel` on a terminal: its frame, progress in place, colours, questions, Ctrl-C.

use std::fs;

use super::real::Foreign;
use super::{KernelHome, has, python};
use crate::cli::PROGRAM;
use crate::support::{CEILING, TmuxServer, wait_for};

/// Starts the program in a pane; returns the pane.
fn in_a_pane(server: &TmuxServer, home: &KernelHome, args: &str) -> String {
    let directory = home.directory.path().display();
    let command = format!(
        "cd '{directory}'; env TD_DATA_DIR='{directory}/data' JUPYTER_RUNTIME_DIR='{directory}/runtime' \
         '{PROGRAM}' kernel {args}; echo \"code $?\"; exec cat"
    );
    server.new_session("kernel", 100, 40, &command)
}

#[test]
fn a_cell_in_its_frame() {
    let Some(python) = python() else { return };
    let (server, home) = (TmuxServer::new(), KernelHome::new(python));
    let code = "
import os, sys, time
def wait(name):
    while not os.path.exists(name): time.sleep(0.01)
print('printed'); print('problem', file=sys.stderr)
for i in (10, 50, 100):
    print(f'\\rbar {i:3d}%', end='', flush=True); wait(f'bar-{i}')
print()
name = input('your name? ')
print('hello', name)
import getpass
print(len(getpass.getpass('secret? ')))
1/0
";
    fs::write(home.directory.path().join("job.py"), code).unwrap();
    let pane = in_a_pane(&server, &home, &format!("--kernel '{}' job.py", home.spec));
    server.wait_for_text(&pane, ", cell 1 >");
    server.wait_for_text(&pane, "├─► [code] import os, sys, time");
    server.wait_for_text(&pane, "│          def wait(name):");
    server.wait_for_text(&pane, "… 2 more lines");
    server.wait_for_text(&pane, "├─► [verification] CORRECT");
    server.wait_for_text(&pane, "│   printed");
    server.wait_for_text(&pane, "│   [stderr] problem");
    for percent in [10, 50, 100] {
        server.wait_for_text(&pane, &format!("bar {percent:3}%"));
        // Rewritten in place: the screen has one bar.
        assert_eq!(
            server.screen(&pane).matches("│   bar ").count(),
            1,
            "{}",
            server.screen(&pane)
        );
        fs::write(home.directory.path().join(format!("bar-{percent}")), "").unwrap();
    }
    server.wait_for_text(&pane, "your name?");
    server.tmux(&["send-keys", "-t", &pane, "Ada", "Enter"]);
    server.wait_for_text(&pane, "│   hello Ada");
    server.wait_for_text(&pane, "secret?");
    server.tmux(&["send-keys", "-t", &pane, "xyzzy", "Enter"]);
    server.wait_for_text(&pane, "│   5");
    server.wait_for_text(&pane, "code 1");
    let screen = server.screen(&pane);
    assert!(
        screen.contains("your name? Ada") && !screen.contains("xyzzy"),
        "{screen}"
    );
    assert!(
        screen.contains("[execution_status] FAILURE") && screen.contains("╰──●"),
        "{screen}"
    );
    // The traceback has the colours of IPython.
    let coloured = server.tmux(&["capture-pane", "-p", "-e", "-t", &pane]);
    let error = coloured
        .lines()
        .find(|line| line.contains("ZeroDivisionError"))
        .unwrap();
    assert!(error.contains("\u{1b}[31m"), "{error:?}");
    // Passwords are not stored.
    let log = crate::cli::run(&["log"], &home.data());
    let log = crate::cli::text(&log.stdout);
    assert!(
        log.contains("your name? Ada") && !log.contains("xyzzy"),
        "{log}"
    );
}

#[test]
fn a_tqdm_bar_is_rewritten_in_place() {
    let Some(python) = python() else { return };
    if !has(python, "tqdm") {
        eprintln!("!!! tqdm is not installed: skipped");
        return;
    }
    let (server, home) = (TmuxServer::new(), KernelHome::new(python));
    let code = "
import os, time
from tqdm import tqdm
for step in tqdm(range(3), mininterval=0, ncols=60):
    while not os.path.exists(f'step-{step}'): time.sleep(0.01)
print('that was all')
";
    fs::write(home.directory.path().join("job.py"), code).unwrap();
    let pane = in_a_pane(&server, &home, &format!("--kernel '{}' job.py", home.spec));
    for step in 0..3 {
        server.wait_for_text(&pane, &format!("{step}/3"));
        let screen = server.screen(&pane);
        assert_eq!(screen.matches("%|").count(), 1, "{screen}");
        fs::write(home.directory.path().join(format!("step-{step}")), "").unwrap();
    }
    server.wait_for_text(&pane, "that was all");
    server.wait_for_text(&pane, "code 0");
    let screen = server.screen(&pane);
    assert_eq!(screen.matches("%|").count(), 1, "{screen}");
    assert!(
        screen.contains("[stderr] 100%|") && screen.contains("3/3"),
        "{screen}"
    );
}

#[test]
fn ctrl_c_interrupts_the_cell_and_leaves_the_kernel_usable() {
    let Some(python) = python() else { return };
    let (server, home) = (TmuxServer::new(), KernelHome::new(python));
    let mut foreign = Foreign::start(&home, python);
    let code = "x = 7; print(\"runs\"); import time; time.sleep(100)";
    let pane = in_a_pane(
        &server,
        &home,
        &format!("--connection '{}' -c '{code}'", foreign.connection()),
    );
    server.wait_for_text(&pane, "│   runs");
    server.tmux(&["send-keys", "-t", &pane, "C-c"]);
    server.wait_for_text(&pane, "code 130");
    assert!(server.screen(&pane).contains("KeyboardInterrupt"));
    assert!(
        foreign.child.try_wait().unwrap().is_none(),
        "the kernel has ended"
    );
    let args = ["--connection", foreign.connection(), "-c", "print(x)"];
    let output = crate::cli::Running::start(home.command(&args)).end();
    assert_eq!(crate::cli::text(&output.stdout), "7\n");
    // A question is interrupted, too.
    let pane = in_another(&server, &home, &foreign, "first");
    server.wait_for_text(&pane, "really?");
    server.tmux(&["send-keys", "-t", &pane, "C-c"]);
    server.wait_for_text(&pane, "code 130");
    wait_for("the kernel", CEILING, || {
        foreign.child.try_wait().unwrap().map_or(Ok(()), Err)
    });
    // A kernel that ends during a question is reported without an answer.
    let pane = in_another(&server, &home, &foreign, "second");
    server.wait_for_text(&pane, " ?   really?");
    foreign.child.kill().unwrap();
    server.wait_for_text(&pane, "code 1");
    assert!(server.screen(&pane).contains("closed its connections"));
}

fn in_another(server: &TmuxServer, home: &KernelHome, foreign: &Foreign, before: &str) -> String {
    server.tmux(&["rename-session", "-t", "=kernel:", before]);
    in_a_pane(
        server,
        home,
        &format!(
            "--connection '{}' -c 'input(\"really? \")'",
            foreign.connection()
        ),
    )
}
