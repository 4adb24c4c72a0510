# fish completion of cfq: put it into ~/.config/fish/completions/cfq.fish
function __cfq_words
  set -l current (commandline -ct)
  set -l found (cfq completion words -- (commandline -opc)[2..-1] "$current" 2>/dev/null)
  if set -q found[1]
    printf '%s\n' $found
  else
    __fish_complete_path "$current"
  end
end
complete -c cfq -f -a '(__cfq_words)'
