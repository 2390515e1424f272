# An agent at work: it makes a plan, runs tools on real files and says when it is done.
sleep 1
echo "> Which accounts of this machine can log in?"
sleep 1
echo "* Plan: read the accounts, look for their shells, count"
sleep 1
echo "* Tool: grep -c . /etc/passwd"
all=$(grep -c . /etc/passwd)
echo "  $all accounts"
sleep 1
echo "* Tool: grep -c 'sh\$' /etc/passwd"
able=$(grep -c 'sh$' /etc/passwd)
echo "  $able with a shell"
sleep 1
echo "* Tool: grep -c 'nologin\$' /etc/passwd"
echo "  $(grep -c 'nologin$' /etc/passwd) that are locked out"
sleep 1
echo "$able of $all accounts can log in."
echo "[Output Complete]"
sleep 3
