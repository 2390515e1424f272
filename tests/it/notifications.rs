//! Notifications, end to end: a real observer, real panes, and servers on this machine.

pub mod stand_in;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use stand_in::{Reply, Request, StandIn};

use crate::cli::{Running, assert_code, text};
use crate::observer::Home;
use crate::support::{CEILING, TmuxServer, wait_for};

/// A pane that shows what is written to its terminal, with a program that no rule takes for a shell or a viewer.
const BLANK: &str = "stty -echo; echo ready; exec sleep 1000";

/// The screens of an agent that asks, works and is done.
const ASKS: &str = "\x1b[2J\x1b[H⏺ I run it.\r\n\r\n────────────────\r\n Bash command\r\n\r\n   QUESTION\r\n\r\n \
    Do you want to proceed?\r\n ❯ 1. Yes\r\n   2. No, and tell Claude what to do differently (esc)\r\n\r\n Esc to cancel\r\n";
const WORKS: &str = "\x1b[2J\x1b[H⏺ Bash(npm test)\r\n\r\n✻ Churning… (3s · esc to interrupt)\r\n\r\n\
    ────────────────\r\n❯ \r\n────────────────\r\n";

/// A home with an agent in the pane `web`, and a configuration.
pub struct Stage {
    pub home: Home,
    panes: Vec<(String, fs::File)>,
}

impl Stage {
    fn new(config: &str) -> Self {
        Self::with_panes(&["web"], config)
    }

    pub fn with_panes(names: &[&str], config: &str) -> Self {
        let home = Home::new();
        let directory = home.directory().join(".config/td-observe");
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("config.toml");
        fs::write(
            &path,
            config.replace("HOME", &home.directory().display().to_string()),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let panes = names.iter().map(|name| {
            let pane = home.server.new_session(name, 100, 30, BLANK);
            home.server.wait_for_text(&pane, "ready");
            ((*name).to_owned(), home.server.terminal(&pane))
        });
        let panes = panes.collect();
        Self { home, panes }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("XDG_CONFIG_HOME", self.home.directory().join(".config"));
        command
    }

    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        Running::start(self.command(args)).end()
    }

    #[track_caller]
    pub fn start(&self, more: &[&str]) {
        let socket = self.home.server.socket().display().to_string();
        let args = [&["start", "-S", &socket], more].concat();
        assert_code(&self.run(&args), 0);
    }

    #[track_caller]
    pub fn stop(&self) {
        assert_code(&self.run(&["stop"]), 0);
    }

    /// Shows a screen in a pane.
    fn show(&mut self, name: &str, screen: &str) {
        let (_, terminal) = self
            .panes
            .iter_mut()
            .find(|(pane, _)| pane == name)
            .unwrap();
        terminal.write_all(screen.as_bytes()).unwrap();
    }

    /// Lets the agent in a pane ask, until the board shows it.
    #[track_caller]
    fn ask(&mut self, name: &str, question: &str) {
        self.show(name, &ASKS.replace("QUESTION", question));
        self.home
            .wait_for_row(name, |row| row["state"] == "waiting");
    }

    /// Lets the agent in a pane work, until the board shows it.
    #[track_caller]
    fn work(&mut self, name: &str) {
        self.show(name, WORKS);
        self.home
            .wait_for_row(name, |row| row["state"] == "working");
    }

    /// Attaches a client that shows a pane, in a pane of another server.
    pub fn attach(&self, name: &str) -> (TmuxServer, String) {
        let socket = self.home.server.socket().display().to_string();
        let attach = format!("TMUX= TERM=screen tmux -S '{socket}' attach -t {name}");
        let outer = TmuxServer::new();
        let client = outer.new_session("client", 110, 37, &attach);
        let is_attached = || match self.home.server.tmux(&["list-clients"]) {
            clients if clients.is_empty() => Err(clients),
            _ => Ok(()),
        };
        wait_for("a client", CEILING, is_attached);
        (outer, client)
    }

    /// Returns the lines of the log of notifications of one kind.
    fn log(&self, what: &str) -> Vec<Value> {
        let lines = text(&self.run(&["notify", "log", "--json", "-n", "1000"]).stdout);
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["what"] == what).collect()
    }

    /// Waits until the log of notifications has so many lines of one kind.
    #[track_caller]
    fn wait_for_log(&self, what: &str, count: usize) -> Vec<Value> {
        wait_for(what, CEILING, || {
            let lines = self.log(what);
            if lines.len() >= count {
                Ok(lines)
            } else {
                Err(lines)
            }
        })
    }
}

/// The configuration of one channel, and a rule that tells it everything soon.
fn config(channel: &str) -> String {
    format!(
        "[[notify]]\nwhen = [\"waiting\"]\nafter = \"1s\"\nto = \"one\"\n\n[channel.one]\n{channel}\n"
    )
}

fn webhook(server: &StandIn) -> String {
    config(&format!(
        "kind = \"webhook\"\nurl = \"{}/hook\"",
        server.url()
    ))
}

fn event(request: &Request) -> Value {
    let envelope: Value = serde_json::from_str(&request.body).unwrap();
    envelope["event"].clone()
}

#[test]
fn a_question_that_stands_is_told_once_and_withdrawn() {
    let server = StandIn::new(|_| Reply::ok(""));
    let mut stage = Stage::with_panes(
        &["web", "api"],
        &format!(
            "[[notify]]\nwhen = [\"waiting\"]\nto = [\"one\", \"two\"]\n\n\
         [channel.one]\nkind = \"webhook\"\nurl = \"{}/hook\"\n\n\
         [channel.two]\nkind = \"command\"\nrun = \"cat >> HOME/told; echo $TD_STATE $TD_SESSION $TD_RESOLVED >> HOME/variables\"\n",
            server.url()
        ),
    );
    stage.start(&[]);
    stage.ask("api", "answered soon");
    stage.work("api");
    stage.ask("web", "rm -r build");
    let request = server.wait_for(1).remove(0);
    let sent = event(&request);
    assert_eq!(sent["session"], "web");
    assert_eq!(sent["state"], "waiting");
    assert_eq!(sent["dialogue"]["choices"][0]["label"], "Yes");
    assert!(sent.get("resolved").is_none(), "{sent}");
    stage.wait_for_log("sent", 2);
    stage.work("web");
    let resolved = event(&server.wait_for(2)[1]);
    assert_eq!(resolved["resolved"], true);
    assert_eq!(resolved["notification"], sent["id"]);
    stage.wait_for_log("updated", 2);
    let variables = fs::read_to_string(stage.home.directory().join("variables")).unwrap();
    assert_eq!(variables, "waiting web\nwaiting web 1\n");
    // Why nothing was told of the other one.
    let withheld = stage.wait_for_log("withheld", 1);
    let of_api = |it: &&Value| it["items"][0]["name"] == "api";
    let why = withheld.iter().find(of_api).unwrap()["why"]
        .as_str()
        .unwrap();
    assert!(why.starts_with("it was settled before it"), "{why}");
    let shown = text(&stage.run(&["notify", "log", "web"]).stdout);
    assert!(
        shown.contains("sent") && shown.contains("updated"),
        "{shown}"
    );
    assert_eq!(server.requests().len(), 2);
    let mode = fs::metadata(stage.home.data().join("notify.jsonl"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_restart_repeats_nothing_and_sends_what_still_holds() {
    let server = StandIn::new(|_| Reply::ok(""));
    let mut stage = Stage::with_panes(&["web", "api", "db"], &webhook(&server));
    stage.start(&[]);
    stage.ask("web", "told before");
    server.wait_for(1);
    stage.stop();
    // One is answered meanwhile, two ask.
    stage.show("web", WORKS);
    stage.show("api", &ASKS.replace("QUESTION", "one"));
    stage.show("db", &ASKS.replace("QUESTION", "two"));
    stage.start(&[]);
    let requests = server.wait_for(3);
    let events: Vec<Value> = requests[1..].iter().map(event).collect();
    // The first message is withdrawn, and the two questions are one message.
    assert_eq!(events[0]["resolved"], true, "{events:#?}");
    assert_eq!(
        events[1]["more"].as_array().map(Vec::len),
        Some(1),
        "{events:#?}"
    );
    stage.stop();
    stage.start(&[]);
    stage.work("api");
    stage.work("db");
    let after: Vec<Value> = server.wait_for(4)[3..].iter().map(event).collect();
    assert!(
        after.iter().all(|event| event["resolved"] == true),
        "{after:#?}"
    );
}

#[test]
fn each_question_arrives_once_whatever_a_server_answers() {
    // What it answers to the first requests; later ones are taken.
    let answers = [
        Reply::status(500),
        Reply::status(429).header("Retry-After: 1"),
        Reply::half(),
        Reply::slow(Duration::from_secs(2)),
        Reply::closed(),
    ];
    let server = StandIn::new(move |number| answers.get(number).cloned().unwrap_or(Reply::ok("")));
    let mut stage = Stage::with_panes(&["web", "api"], &webhook(&server));
    stage.start(&[]);
    stage.ask("web", "the first");
    stage.wait_for_log("sent", 1);
    stage.ask("api", "the second");
    let sent = stage.wait_for_log("sent", 2);
    let names: Vec<&str> = sent
        .iter()
        .filter_map(|it| it["items"][0]["name"].as_str())
        .collect();
    assert_eq!(names, ["web", "api"]);
    // Each attempt has the same id, so that a server can tell them apart from another question.
    let mut taken: Vec<String> = Vec::new();
    for request in server.requests() {
        let id = event(&request)["id"].as_str().unwrap().to_owned();
        assert_eq!(request.header("x-td-event-id"), Some(&*id));
        if !taken.contains(&id) {
            taken.push(id);
        }
    }
    assert_eq!(taken.len(), 2, "{taken:?}");
}

#[test]
fn a_redirect_gets_neither_body_nor_token_and_is_one_warning() {
    let other = StandIn::new(|_| Reply::ok(""));
    let place = format!("Location: {}/stolen", other.url());
    let server = StandIn::new(move |_| Reply::status(302).header(&place));
    let mut stage = Stage::new(&format!(
        "{}secret_file = \"HOME/secret\"\n",
        webhook(&server)
    ));
    let secret = "correct-horse-battery-staple";
    let path = stage.home.directory().join("secret");
    fs::write(&path, secret).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    stage.start(&["-v"]);
    stage.ask("web", "where to");
    let refused = stage.wait_for_log("refused", 1);
    assert!(
        refused[0]["why"].as_str().unwrap().contains("redirects"),
        "{refused:?}"
    );
    assert!(other.requests().is_empty());
    let shown = text(&stage.run(&["config", "show"]).stdout);
    assert!(!shown.contains(secret), "{shown}");
    let log = text(
        &stage
            .run(&["log", "web", "--json", "--type", "Warning"])
            .stdout,
    );
    assert_eq!(log.matches("channel one").count(), 1, "{log}");
    stage.stop();
    let grep = Command::new("grep")
        .args(["-rl", secret])
        .arg(stage.home.data())
        .output()
        .unwrap();
    assert_eq!(text(&grep.stdout), "", "the secret is in a file");
}

#[test]
fn nobody_is_told_what_he_looks_at() {
    let server = StandIn::new(|_| Reply::ok(""));
    let mut stage = Stage::with_panes(&["web", "api"], &webhook(&server));
    // A client that shows `web`, in a pane of another session, and in which somebody types.
    let (outer, client) = stage.attach("web");
    outer.tmux(&["send-keys", "-t", &client, "x"]);
    stage.start(&[]);
    stage.ask("web", "seen");
    stage.ask("api", "not seen");
    let request = server.wait_for(1).remove(0);
    assert_eq!(event(&request)["session"], "api");
    let why = |it: &Value| it["items"][0]["name"] == "web" && it["why"] == "you have looked at it";
    wait_for("web is withheld", CEILING, || {
        let withheld = stage.log("withheld");
        if withheld.iter().any(why) {
            Ok(())
        } else {
            Err(withheld)
        }
    });
    // The client goes to the other one, whose message is withdrawn.
    let name = stage
        .home
        .server
        .tmux(&["list-clients", "-F", "#{client_name}"]);
    let name = name.trim();
    stage
        .home
        .server
        .tmux(&["switch-client", "-c", name, "-t", "api"]);
    let resolved = event(&server.wait_for(2)[1]);
    assert_eq!(
        (&resolved["session"], &resolved["resolved"]),
        (&json!("api"), &json!(true))
    );
    assert_eq!(resolved["settled"], "seen");
}

#[cfg(feature = "serve")]
#[test]
fn what_the_page_shows_is_not_told_and_its_answer_withdraws_what_was() {
    use crate::serve::Served;
    use crate::serve::browser::{self, Browser, PHONE};
    if !browser::is_there() {
        return;
    }
    let server = StandIn::new(|_| Reply::ok(""));
    let mut stage = Stage::new(&webhook(&server));
    stage.start(&[]);
    let served = Served::start(&stage.home, &["--allow-input"]);
    let mut browser = Browser::start();
    let phone = browser.open(&PHONE, "dark", &served.link);
    browser.until(&phone, "document.querySelector('#board [data-row]')");
    browser.press(&phone, "j");
    stage.ask("web", "seen");
    let seen = |it: &Value| it["items"][0]["name"] == "web" && it["why"] == "you have looked at it";
    wait_for("what the page shows is withheld", CEILING, || {
        let withheld = stage.log("withheld");
        withheld.iter().any(seen).then_some(()).ok_or(withheld)
    });
    // The next question comes right after, and is seen as well.
    stage.work("web");
    stage.ask("web", "seen again");
    wait_for("the next one is withheld", CEILING, || {
        let withheld = stage.log("withheld");
        let count = withheld.iter().filter(|it| seen(it)).count();
        (count >= 2).then_some(()).ok_or(withheld)
    });
    assert_eq!(server.requests().len(), 0, "{:?}", server.requests());

    // Nobody looks at the page: the question is told, and answered there later.
    let away = serde_json::json!({"url": "about:blank"});
    browser.tab_call(&phone, "Page.navigate", away);
    stage.work("web");
    stage.ask("web", "not seen");
    let told = event(&server.wait_for(1)[0]);
    assert_eq!(
        (&told["session"], &told["resolved"]),
        (&json!("web"), &Value::Null)
    );
    let phone = browser.open(&PHONE, "dark", &served.link);
    browser.until(
        &phone,
        "document.querySelector('[data-choice=\"1\"]:not([aria-disabled])')",
    );
    browser.tap(&phone, "[data-choice=\"1\"]");
    stage.work("web");
    let resolved = event(&server.wait_for(2)[1]);
    assert_eq!(resolved["resolved"], true, "{resolved}");
}

#[test]
fn a_press_on_a_button_answers_that_question_and_an_old_one_says_so() {
    // Telegram's API as its documentation describes it.
    let telegram = stand_in::Telegram::new();
    let server = telegram.serve();
    let mut stage = Stage::new(&config(&format!(
        "kind = \"telegram\"\nurl = \"{}\"\nchat = 7\nanswers = true\nusers = [42]\ntoken_file = \"HOME/token\"",
        server.url()
    )));
    let path = stage.home.directory().join("token");
    fs::write(&path, "123:ABC").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    // The agent reads the keys that are typed.
    let agent = format!(
        "stty -echo -icanon; printf '{}'; key=$(head -c 1); printf '{}typed %s' \"$key\"; exec sleep 1000",
        ASKS.replace("QUESTION", "npm test")
            .replace("\x1b", "\\033")
            .replace("\r\n", "\\r\\n"),
        WORKS.replace("\x1b", "\\033").replace("\r\n", "\\r\\n")
    );
    let pane = stage.home.server.new_session("agent", 100, 30, &agent);
    stage.home.server.wait_for_text(&pane, "proceed");
    stage.start(&["--allow-input"]);
    let sent = telegram.wait_for_message(1);
    assert_eq!(sent["chat_id"], 7);
    let buttons = sent["reply_markup"]["inline_keyboard"].to_string();
    assert!(buttons.contains("Yes"), "{sent}");
    let data = telegram.button(&sent, "Yes");
    // The next observer takes the answer, too.
    stage.stop();
    stage.start(&["--allow-input"]);
    stage
        .home
        .wait_for_row("agent", |row| row["state"] == "waiting");
    // Somebody else may not answer.
    telegram.press(13, &data);
    let refused = telegram.wait_for_answer(1);
    assert!(
        !refused["text"].as_str().unwrap().contains("Answered"),
        "{refused}"
    );
    telegram.press(42, &data);
    let answered = telegram.wait_for_answer(2);
    assert!(
        answered["text"].as_str().unwrap().contains("Answered"),
        "{answered}"
    );
    stage.home.server.wait_for_text(&pane, "typed 1");
    // The message shows that it is settled, and its button answers nothing any more.
    telegram.wait_for_edit(1);
    telegram.press(42, &data);
    let old = telegram.wait_for_answer(3);
    assert!(old["text"].as_str().unwrap().contains("no longer"), "{old}");
    stage.show("web", WORKS);
    stage.stop();
}

#[test]
fn what_rows_print_is_streamed_in_order_and_a_flood_ends_with_a_count() {
    let telegram = stand_in::Telegram::new();
    let server = telegram.serve();
    let mut stage = Stage::new("");
    let path = stage
        .home
        .directory()
        .join(".config/td-observe/config.toml");
    let channel = format!(
        "[[notify]]\nwhen = [\"waiting\"]\nonly = [\"build\"]\nto = \"one\"\n\n[channel.one]\nkind = \"telegram\"\n\
         url = \"{}\"\nchat = 7\noutput = true\ntoken_file = \"{}\"\n",
        server.url(),
        stage.home.directory().join("token").display()
    );
    fs::write(&path, channel).unwrap();
    let token = stage.home.directory().join("token");
    fs::write(&token, "123:ABC").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let program = "read go; i=0; while [ $i -lt 20 ]; do echo line $i; i=$((i+1)); done; read go; seq -f 'flood %.0f' 100000; exec cat";
    stage.home.server.new_session("build", 80, 24, program);
    stage.show("web", "not told\r\n");
    stage.start(&["--source", "stream"]);
    stage
        .home
        .wait_for_row("build", |row| row["state"] != "unknown");
    stage
        .home
        .server
        .tmux(&["send-keys", "-t", "build", "Enter"]);
    let first = telegram.wait_for_message(1);
    let expected: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
    let lines = |message: &Value| -> Vec<String> {
        let text = message["text"].as_str().unwrap().to_owned();
        text.lines().map(str::to_owned).collect()
    };
    let shown: Vec<String> = lines(&first)
        .into_iter()
        .filter(|it| it.starts_with("line"))
        .collect();
    assert_eq!(shown, expected, "{first}");
    stage
        .home
        .server
        .tmux(&["send-keys", "-t", "build", "Enter"]);
    let flood = wait_for("the count", Duration::from_secs(180), || {
        let messages = telegram.messages();
        let all: Vec<String> = messages[1..].iter().flat_map(lines).collect();
        if all.iter().any(|line| line.contains("left out")) {
            Ok(all)
        } else {
            Err(messages.len())
        }
    });
    let mut next = 1;
    for line in flood
        .iter()
        .filter(|line| line.starts_with("flood") || line.contains("left out"))
    {
        match line.strip_prefix("flood ") {
            Some(number) => {
                assert_eq!(number.parse::<u64>().unwrap(), next);
                next += 1;
            }
            None => next += line.split(' ').nth(1).unwrap().parse::<u64>().unwrap(),
        }
    }
    assert_eq!(next, 100_001, "{:?}", flood.last());
    for message in telegram.messages() {
        let text = message["text"].as_str().unwrap();
        assert!(text.encode_utf16().count() <= 4096);
        assert!(!text.contains("not told"), "{text}");
    }
    let times = telegram.times();
    for pair in times.windows(2) {
        assert!(
            pair[1] - pair[0] >= Duration::from_millis(9_500),
            "{times:?}"
        );
    }
}

#[test]
fn wrong_rules_and_channels_are_reported_with_line_and_column() {
    let stage = Stage::new(
        "[[notify]]\n\
         when = [\"waitin\"]\n\
         to = \"phone\"\n\
         sometimes = true\n\
         [channel.phone]\n\
         kind = \"telegram\"\n\
         chat = 1\n\
         token_file = \"HOME/open\"\n\
         [channel.hook]\n\
         kind = \"webhook\"\n\
         url = \"ftp://host\"\n\
         [channel.other]\n\
         kind = \"pigeon\"\n\
         [channel.own]\n\
         kind = \"command\"\n\
         run = 5\n\
         secret = \"x\"\n",
    );
    let open = stage.home.directory().join("open");
    fs::write(&open, "123:ABC").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let check = stage.run(&["config", "check"]);
    assert_code(&check, 2);
    let errors = text(&check.stderr);
    for expected in [
        ":2:9: when: no state is called \"waitin\"; did you mean waiting?",
        ":4:1: notify has no key \"sometimes\"",
        ":8:14: channel.phone: token_file:",
        "chmod 600",
        ":11:7: channel.hook: url: write an address that begins with https://",
        ":13:8: channel.other: there is no kind \"pigeon\"",
        ":16:7: channel.own: run: a value of type integer does not fit",
        ":17:1: channel.own: a channel of kind command has no key \"secret\"",
    ] {
        assert!(errors.contains(expected), "{expected} is not in\n{errors}");
    }
    assert!(!errors.contains("123:ABC"), "{errors}");
    let start = stage.run(&["start"]);
    assert_code(&start, 2);
    assert!(!stage.home.data().join("observer.json").exists());
}

#[test]
fn the_commented_rules_and_channels_are_valid() {
    let stage = Stage::new("");
    let path = stage
        .home
        .directory()
        .join(".config/td-observe/config.toml");
    fs::remove_file(&path).unwrap();
    assert_code(&stage.run(&["config", "init"]), 0);
    let begun = fs::read_to_string(&path).unwrap();
    let (_, rules) = begun.split_once("# [[notify]]").unwrap();
    // Hosts have a test of their own.
    let rules = rules.split("# Hosts.").next().unwrap();
    let rules = format!("# [[notify]]{rules}")
        .replace("\n# ", "\n")
        .replacen("# ", "", 1);
    let directory = path.parent().unwrap();
    for secret in ["ntfy-token", "telegram-token", "hook-secret"] {
        let path = directory.join(secret);
        fs::write(&path, "123:ABC").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    fs::write(&path, &rules).unwrap();
    let check = stage.run(&["config", "check"]);
    assert_code(&check, 0);
    let shown = text(&stage.run(&["config", "show", "--origin"]).stdout);
    assert!(
        shown.contains("[channel.chat]") && shown.contains("[[notify]]"),
        "{shown}"
    );
    let names = text(
        &stage
            .run(&["config", "show", "--json", "channel.phone"])
            .stdout,
    );
    let phone: Value = serde_json::from_str(&names).unwrap();
    assert_eq!(phone["value"]["url"], "https://ntfy.sh/…");
}

#[test]
fn a_channel_is_tried_before_it_is_needed() {
    let stage = Stage::new(&config("kind = \"command\"\nrun = \"cat > HOME/told\""));
    let tried = stage.run(&["notify", "test", "one"]);
    assert_code(&tried, 0);
    let told = fs::read_to_string(stage.home.directory().join("told")).unwrap();
    let envelope: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(envelope["event"]["type"], "Notification");
    let json = text(&stage.run(&["notify", "test", "one", "--json"]).stdout);
    assert_eq!(json, "{\"channel\":\"one\",\"sent\":true}\n");
    // The shell completes its name, and that of its table.
    for (words, completed) in [
        (["notify", "test", ""], "one"),
        (["config", "show", "ch"], "channel.one"),
    ] {
        let mut complete = stage.command(&[&["--", "td-observe"][..], &words].concat());
        complete.env("TD_OBSERVE_COMPLETE", "fish");
        let offered = text(&complete.output().unwrap().stdout);
        assert!(
            offered.lines().any(|line| line == completed),
            "{words:?}: {offered}"
        );
    }
    let unknown = stage.run(&["notify", "test", "on"]);
    assert_code(&unknown, 2);
    assert!(
        text(&unknown.stderr).contains("did you mean \"one\"?"),
        "{unknown:?}"
    );
}

#[test]
fn a_watch_without_an_observer_notifies_too() {
    let server = StandIn::new(|_| Reply::ok(""));
    let mut stage = Stage::new(&webhook(&server));
    let socket = stage.home.server.socket().display().to_string();
    let mut watch = Running::start(stage.command(&["watch", "-S", &socket]));
    watch.wait_for("watching");
    stage.show("web", &ASKS.replace("QUESTION", "to a watch"));
    let request = server.wait_for(1).remove(0);
    assert_eq!(event(&request)["session"], "web");
    watch.signal(rustix::process::Signal::INT);
    assert_code(&watch.end(), 0);
}

#[test]
fn a_long_command_without_an_observer_tells_its_end_before_it_returns() {
    let server = StandIn::new(|_| Reply::ok(""));
    let stage = Stage::with_panes(
        &[],
        &webhook(&server)
            .replace("waiting", "failed")
            .replace("1s", "0s"),
    );
    let short = stage.run(&["run", "sh", "-c", "exit 3"]);
    assert_code(&short, 3);
    let long = stage.run(&["run", "sh", "-c", "sleep 11; exit 4"]);
    assert_code(&long, 4);
    let requests = server.requests();
    assert_eq!(requests.len(), 1, "{requests:#?}");
    let told = event(&requests[0]);
    assert_eq!(told["state"], "failed");
    assert!(
        told["session"].as_str().unwrap().contains("sleep 11"),
        "{told}"
    );
    // An observer tells it, where there is one.
    stage.home.server.new_session("keeper", 80, 24, "exec cat");
    stage.start(&[]);
    assert_code(&stage.run(&["run", "sh", "-c", "sleep 11; exit 5"]), 5);
    let told = event(&server.wait_for(2)[1]);
    assert!(
        told["session"].as_str().unwrap().contains("exit 5"),
        "{told}"
    );
    stage.stop();
}

/// Returns the recipes of the guide: the tables of channels, by their names.
fn recipes() -> Vec<(String, String)> {
    let guide = include_str!("../../src/guide/notifications.md");
    let blocks = guide.split("```toml\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    let tables = blocks.filter_map(|block| block.find("[channel.").map(|at| &block[at..]));
    let named = tables.map(|table| {
        let name = table.strip_prefix("[channel.").unwrap();
        let name = name.split(']').next().unwrap();
        (name.to_owned(), table.to_owned())
    });
    named.collect()
}

#[test]
fn the_recipes_of_the_guide_work_as_printed() {
    let telegram = stand_in::Telegram::new();
    let chat = telegram.serve();
    let server = StandIn::new(|_| Reply::ok("{}"));
    let mut config = String::from("[[notify]]\nto = [");
    let mut names = Vec::new();
    let mut tables = String::new();
    for (name, table) in recipes() {
        if names.contains(&name) {
            // The first example is the recipe of tmux, too.
            continue;
        }
        // Only the addresses are other ones.
        let table = table
            .replace("https://ntfy.sh", &server.url())
            .replace("https://example.org", &server.url())
            .replace(
                "kind = \"telegram\"",
                &format!("kind = \"telegram\"\nurl = \"{}\"", chat.url()),
            );
        config.push_str(&format!("\"{name}\","));
        tables.push_str(&table);
        names.push(name);
    }
    assert_eq!(names, ["here", "screen", "phone", "chat", "hook", "own"]);
    config.push_str(&format!("]\n\n{tables}"));
    let stage = Stage::with_panes(&["web"], &config);
    let directory = stage.home.directory().join(".config/td-observe");
    for secret in ["ntfy-token", "telegram-token", "hook-secret"] {
        let path = directory.join(secret);
        fs::write(&path, "123:ABC").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert_code(&stage.run(&["config", "check"]), 0);
    // A client that sees the message of tmux.
    let (outer, client) = stage.attach("web");
    let socket = stage.home.server.socket().display().to_string();
    for name in &names {
        // A desktop is tried by the tests of its channel; `jq` may not be installed.
        if name == "screen"
            || name == "own" && Command::new("jq").arg("--version").output().is_err()
        {
            eprintln!("!!! skipped: the recipe {name}");
            continue;
        }
        let tried = stage.run(&["-S", &socket, "notify", "test", name]);
        assert_code(&tried, 0);
    }
    outer.wait_for_text(&client, "This is a test");
    let paths: Vec<String> = server
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    assert_eq!(paths, ["/", "/hook"]);
    assert_eq!(telegram.messages().len(), 1);
}

#[test]
fn an_observer_beside_a_watch_and_after_it_repeats_and_withdraws_nothing() {
    let server = StandIn::new(|_| Reply::ok(""));
    let mut stage = Stage::with_panes(&["web", "api"], &webhook(&server));
    let socket = stage.home.server.socket().display().to_string();
    let mut watch = Running::start(stage.command(&["watch", "-S", &socket, "web"]));
    watch.wait_for("watching");
    stage.show("web", &ASKS.replace("QUESTION", "to a watch"));
    server.wait_for(1);
    stage.wait_for_log("sent", 1);
    // The observer tells of its own row, so that it has gathered by then, and knows that of the watch.
    stage.start(&[]);
    stage.ask("api", "to the observer");
    let told = event(&server.wait_for(2)[1]);
    assert_eq!(
        (&told["session"], told.get("resolved")),
        (&json!("api"), None)
    );
    // The watch goes on to tell what happens in its pane.
    stage.work("web");
    assert_eq!(event(&server.wait_for(3)[2])["resolved"], true);
    stage.ask("web", "again to the watch");
    let told = event(&server.wait_for(4)[3]);
    assert_eq!(told["asks"], "again to the watch");
    stage.wait_for_log("sent", 3);
    watch.signal(rustix::process::Signal::INT);
    assert_code(&watch.end(), 0);
    stage.wait_for_log("stopped", 1);
    // It takes over the row of the watch, and withdraws its question with the answer.
    stage
        .home
        .wait_for_row("web", |row| row["state"] == "waiting");
    stage.work("web");
    let resolved = event(&server.wait_for(5)[4]);
    assert_eq!(resolved["resolved"], true);
    assert_eq!(resolved["session"], "web");
    stage.wait_for_log("updated", 2);
    stage.stop();
    assert_eq!(server.requests().len(), 5, "{:#?}", server.requests());
}
