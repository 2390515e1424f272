# Completions of td-observe for bash; created by "td-observe completions bash".
_td_observe_complete() {
    # bash splits words at the characters of COMP_WORDBREAKS, some of which targets, runs and
    # options contain (build:1.0, build@1768989600, --type=Warning): the parts are joined again.
    local words=() index=-1 i part glued=false line=$COMP_LINE
    for ((i = 0; i <= COMP_CWORD; i++)); do
        part=${COMP_WORDS[i]}
        glued=false
        if ((i > 0)) && [[ $line != [[:space:]]* ]]; then
            [[ $part == [:=@]* || ${COMP_WORDS[i - 1]} == *[:=@] ]] && glued=true
        fi
        if [[ $glued == true ]]; then
            words[index]+=$part
        else
            words[++index]=$part
        fi
        line=${line#*"$part"}
    done
    local IFS=$'\013'
    COMPREPLY=($(
        _CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX="$index" TD_OBSERVE_COMPLETE=bash \
            PROGRAM -- "${words[@]}" 2>/dev/null
    ))
    # bash replaces only what follows the last break; an @ is replaced, too.
    local current=${words[index]} rest prefix
    if [[ $current == *[:=@]* ]]; then
        rest=${current##*[:=@]}
        prefix=${current%"$rest"}
        prefix=${prefix%@}
        for ((i = 0; i < ${#COMPREPLY[@]}; i++)); do
            COMPREPLY[i]=${COMPREPLY[i]#"$prefix"}
        done
    fi
    # A directory or an option that ends in = goes on.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -F _td_observe_complete td-observe
