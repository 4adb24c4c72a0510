# bash completion of cfq: source <(cfq completion bash)
_cfq() {
  local current=${COMP_WORDS[COMP_CWORD]} found
  found=$(cfq completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
  if [ -n "$found" ]; then
    COMPREPLY=($(compgen -W "$found" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _cfq cfq
