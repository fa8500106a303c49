{{/*
What each mode is: the arguments of the command, the id that it has unless told otherwise, the kinds of flows that it
serves, whether it follows the prompts of the config topic, and whether it has `extractors`. Without kinds, TrustGraph's
config service has the flows.
*/}}
{{- define "trustgraph-prompt.modes" -}}
run: {arguments: [run], id: prompt, kinds: [prompt-request, chunk], prompts: true}
trustgraph: {arguments: [run, --trustgraph], id: prompt}
extract-trustgraph: {arguments: [run, --trustgraph], id: prompt, extracts: true}
complete: {arguments: [complete], id: text-completion, kinds: [text-completion]}
complete-trustgraph: {arguments: [complete, --trustgraph], id: text-completion}
{{- end -}}
