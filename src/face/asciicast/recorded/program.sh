printf 'ready\n'; tmux wait-for go
i=0; while [ $i -lt 40 ]; do echo "line $i"; i=$((i+1)); done; sleep 0.4
for p in 10 30 50 70 90 100; do printf '\rdone %s%%' $p; sleep 0.25; done; echo
head -c 300 /dev/zero | tr '\0' x; echo
printf '漢字かな交じり文はここで折り返される。もう一度、長い行を書いて確かめる。もう一度、長い行を書いて確かめる。\n'; sleep 0.5
tmux resize-window -t rec -x 50 -y 12; sleep 0.6
printf 'after\n'; sleep 0.4
printf '\033[3A\rREPLACED\033[K\033[3B\r'; sleep 0.5
tmux resize-window -t rec -x 100 -y 30; sleep 0.6
printf '\033[?1049h\033[Hfull screen\r\nsecond'; sleep 1.2; printf '\033[3;1Hthird'; sleep 1.2; printf '\033[?1049l'
echo "back"; sleep 0.3; printf 'Deploy? '; sleep 0.5
tmux wait-for -S done; exec cat
