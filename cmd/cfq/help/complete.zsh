#compdef cfq
# zsh completion of cfq: put it into a directory of $fpath as _cfq
_cfq() {
  local -a found
  found=(${(f)"$(cfq completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null |
    awk -F '\t' '{ gsub(/:/, "\\:"); print $1 ":" $2 }')"})
  if (( $#found )); then
    _describe cfq found
  else
    _files
  fi
}
if [[ ${funcstack[1]} == _cfq ]]; then
  _cfq "$@" # this file is being loaded for the first completion
else
  compdef _cfq cfq
fi
