//! Drives a real Chromium over its debugging pipe.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::CEILING;

/// Returns true if there is a browser; says so if there is none.
pub fn is_there() -> bool {
    let found = Command::new("chromium").arg("--version").output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("!!! chromium is not installed: skipped");
    }
    is_there
}

/// A browser. Its processes end with it.
pub struct Browser {
    child: Child,
    commands: File,
    messages: Receiver<Value>,
    events: VecDeque<Value>,
    next_id: u64,
    _directory: TempDir,
}

/// A page in the browser.
pub struct Tab {
    session: String,
}

/// The size of a window.
pub struct Size {
    pub width: u32,
    pub height: u32,
    pub is_phone: bool,
}

pub const DESKTOP: Size = Size {
    width: 1280,
    height: 800,
    is_phone: false,
};
pub const PHONE: Size = Size {
    width: 390,
    height: 844,
    is_phone: true,
};

impl Browser {
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a browser with more options.
    #[track_caller]
    pub fn start_with(options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [to, from] = ["to", "from"].map(|name| {
            let path = directory.path().join(name);
            let made = Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(made.success());
            path
        });
        let profile = directory.path().join("profile");
        let script = "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
            --disable-background-networking --disable-component-update --no-first-run --hide-scrollbars \
            --remote-debugging-pipe --user-data-dir=\"$3\" \"${@:4}\" about:blank 3<\"$1\" 4>\"$2\"";
        let mut command = Command::new("bash");
        command
            .args(["-c", script, "bash"])
            .args([&to, &from, &profile])
            .args(options)
            .env("HOME", directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let child = command.spawn().unwrap();
        let commands = OpenOptions::new().write(true).open(&to).unwrap();
        let answers = File::open(&from).unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut answers = BufReader::new(answers);
            let mut message = Vec::new();
            while answers
                .read_until(0, &mut message)
                .is_ok_and(|count| count > 0)
            {
                message.pop();
                let value = serde_json::from_slice(&message).unwrap_or_default();
                if sender.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        });
        Self {
            child,
            commands,
            messages,
            events: VecDeque::new(),
            next_id: 0,
            _directory: directory,
        }
    }

    #[track_caller]
    fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        self.commands
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        loop {
            let message = self.messages.recv_timeout(2 * CEILING).expect(method);
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push_back(message);
        }
    }

    /// Opens a page of a size.
    #[track_caller]
    pub fn open(&mut self, size: &Size, theme: &str, link: &str) -> Tab {
        let made = self.call(None, "Target.createTarget", json!({"url": "about:blank"}));
        let target = made["targetId"].as_str().unwrap().to_owned();
        let attached = json!({"targetId": target, "flatten": true});
        let attached = self.call(None, "Target.attachToTarget", attached);
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        let tab = Tab { session };
        self.tab_call(&tab, "Page.enable", json!({}));
        self.tab_call(&tab, "Runtime.enable", json!({}));
        self.tab_call(&tab, "Log.enable", json!({}));
        let scale = if size.is_phone { 2 } else { 1 };
        let metrics = json!({"width": size.width, "height": size.height, "deviceScaleFactor": scale, "mobile": size.is_phone});
        self.tab_call(&tab, "Emulation.setDeviceMetricsOverride", metrics);
        if size.is_phone {
            self.tab_call(
                &tab,
                "Emulation.setTouchEmulationEnabled",
                json!({"enabled": true}),
            );
        }
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        self.tab_call(&tab, "Emulation.setEmulatedMedia", media);
        self.tab_call(&tab, "Page.navigate", json!({"url": link}));
        tab
    }

    #[track_caller]
    pub fn tab_call(&mut self, tab: &Tab, method: &str, params: Value) -> Value {
        self.call(Some(&tab.session), method, params)
    }

    /// Evaluates an expression in a page; returns its value.
    #[track_caller]
    pub fn eval(&mut self, tab: &Tab, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.tab_call(tab, "Runtime.evaluate", params);
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true; shows the text of the page if it never is.
    #[track_caller]
    pub fn until(&mut self, tab: &Tab, expression: &str) {
        let end = Instant::now() + CEILING;
        // While a page is loaded, there may be nothing that it could ask.
        let wanted = format!(
            "(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()"
        );
        while self.eval(tab, &wanted) != true {
            if Instant::now() > end {
                let text = self.eval(tab, "document.body.innerText");
                panic!(
                    "{expression}: {}\n{:?}",
                    text.as_str().unwrap_or_default(),
                    self.complaints()
                );
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Presses a key, such as `j` or `Enter`.
    #[track_caller]
    pub fn press(&mut self, tab: &Tab, key: &str) {
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.tab_call(tab, "Input.dispatchKeyEvent", event);
        }
    }

    /// Taps the middle of an element.
    #[track_caller]
    pub fn tap(&mut self, tab: &Tab, selector: &str) {
        // Only the page in front takes input.
        self.tab_call(tab, "Page.bringToFront", json!({}));
        let place = format!(
            "(() => {{ const box = document.querySelector({selector:?}).getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let place = self.eval(tab, &place);
        let point = json!([{"x": place[0], "y": place[1]}]);
        self.tab_call(
            tab,
            "Input.dispatchTouchEvent",
            json!({"type": "touchStart", "touchPoints": point}),
        );
        self.tab_call(
            tab,
            "Input.dispatchTouchEvent",
            json!({"type": "touchEnd", "touchPoints": []}),
        );
    }

    /// Returns what the page complains about so far: exceptions, errors of the console, and what the policy forbids.
    pub fn complaints(&mut self) -> Vec<Value> {
        self.events.extend(self.messages.try_iter());
        let is_complaint = |event: &&Value| {
            event["method"] == "Runtime.exceptionThrown"
                || event["method"] == "Runtime.consoleAPICalled"
                    && event["params"]["type"] == "error"
                || event["method"] == "Log.entryAdded"
                    && event["params"]["entry"]["source"] == "security"
        };
        self.events.iter().filter(is_complaint).cloned().collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The group is that of the browser alone.
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.child.wait();
    }
}
