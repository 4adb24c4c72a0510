{{- /* What search looks in: one entry for each heading of each page, with the text up to the next one. */ -}}
{{- $entries := slice }}
{{- range site.Pages }}
  {{- $page := . }}
  {{- $title := partial "title.html" . }}
  {{- $html := .Content }}
  {{- if strings.HasPrefix .Path "/docs/tables/" }}
    {{- $html = replaceRE `(?s)<pre.*?</pre>` "" $html }}{{/* hundreds of commands would be found for any flag */}}
  {{- end }}
  {{- range after 1 (split (replaceRE `<h[1-6] id="` "\u001f" $html) "\u001f") }}
    {{- with findRESubmatch `(?s)^([^"]*)">(.*?)</h[1-6]>(.*)$` . 1 }}
      {{- $match := index . 0 }}
      {{- $text := plainify (index $match 3) | htmlUnescape }}
      {{- $entries = $entries | append (dict
        "page" $title
        "heading" (trim (plainify (index $match 2) | htmlUnescape) " \n")
        "url" (printf "%s#%s" (strings.TrimPrefix "/" $page.RelPermalink) (index $match 1))
        "text" (trim (replaceRE `\s+` " " $text) " ")) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- $entries = $entries | append slice -}}
window.searchIndex = {{ $entries | jsonify | safeJS }};
