{{/*
The workers by name, as JSON: the values of each over those of `worker`, and what follows from them:
  name, fullname    of the worker, and of its objects
  command           its mode (_modes.tpl)
  id                of the processor
  served            its flows by name, each a whole flow file with its subscription; none where others know them
  grace             seconds until its Pods are killed
  atOnce            requests that one replica works on at once
  unseen            why its backlog cannot be asked of Pulsar, if so
Whatever is wrong with the values of a worker fails here.
*/}}
{{- define "trustgraph-prompt.workers" -}}
{{- $workers := dict -}}
{{- $modes := include "trustgraph-prompt.modes" . | fromYaml -}}
{{- $flows := include "trustgraph-prompt.flows" . | fromJson -}}
{{- range $name, $own := .Values.workers -}}
{{- $where := printf "workers.%s" $name -}}
{{- $worker := include "trustgraph-prompt.withoutNulls" (mergeOverwrite (deepCopy $.Values.worker) (deepCopy ($own | default dict))) | fromJson -}}
{{- if $worker.enabled -}}
{{- $mode := get $modes $worker.mode -}}
{{- if not $mode -}}
{{- fail (printf "%s.mode: found %q, expected one of %s" $where $worker.mode (keys $modes | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $fullname := printf "%s-%s" (include "trustgraph-prompt.fullname" $) $name -}}
{{- if gt (len $fullname) 52 -}}
{{- fail (printf "%s: its objects would be named %q, which has more than 52 characters: set fullnameOverride" $where $fullname) -}}
{{- end -}}
{{- $_ := set $worker "name" $name -}}
{{- $_ := set $worker "fullname" $fullname -}}
{{- $_ := set $worker "command" $mode -}}
{{- $_ := set $worker "id" ($worker.id | default $mode.id) -}}
{{- include "trustgraph-prompt.checkExtractors" (dict "where" $where "worker" $worker) -}}
{{- $_ := set $worker "served" (include "trustgraph-prompt.served" (dict "where" $where "worker" $worker "flows" $flows) | fromJson) -}}
{{- $_ := set $worker "grace" (include "trustgraph-prompt.grace" (dict "where" $where "worker" $worker) | int) -}}
{{- $_ := set $worker "atOnce" (include "trustgraph-prompt.atOnce" $worker | int) -}}
{{- $_ := set $worker "unseen" (include "trustgraph-prompt.unseen" $worker) -}}
{{- include "trustgraph-prompt.checkScaling" (dict "where" (printf "%s.scaling" $where) "worker" $worker "flows" $flows) -}}
{{- include "trustgraph-prompt.checkAccess" (dict "where" $where "worker" $worker) -}}
{{- $_ := set $workers $name $worker -}}
{{- end -}}
{{- end -}}
{{- if not $workers -}}
{{- fail "workers: none is enabled" -}}
{{- end -}}
{{- toJson $workers -}}
{{- end -}}

{{/* All flows of the release by name, as JSON: those of values, or else those of the chart's files. */}}
{{- define "trustgraph-prompt.flows" -}}
{{- $flows := deepCopy .Values.flows -}}
{{- if not $flows -}}
{{- range $path, $bytes := .Files.Glob .Values.flowFiles -}}
{{- $flow := toString $bytes | fromYaml -}}
{{- $_ := set $flows $flow.name $flow -}}
{{- end -}}
{{- end -}}
{{- toJson $flows -}}
{{- end -}}

{{/* The flows that a worker serves, as JSON; of: where, worker, flows. */}}
{{- define "trustgraph-prompt.served" -}}
{{- $worker := .worker -}}
{{- $kinds := $worker.command.kinds -}}
{{- $served := dict -}}
{{- if and (not $kinds) (or $worker.flows $worker.existingFlows) -}}
{{- fail (printf "%s.flows: have no effect with mode %s: TrustGraph's config service has the flows" .where $worker.mode) -}}
{{- end -}}
{{- if and $kinds (not $worker.existingFlows) -}}
{{- $names := $worker.flows -}}
{{- if not $names -}}
{{- range $name, $flow := .flows -}}
{{- if has ($flow.input.kind | default "prompt-request") $kinds -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $names -}}
{{- fail (printf "%s.flows: mode %s serves flows of the kind %s, and there is none" .where $worker.mode (join " or " $kinds)) -}}
{{- end -}}
{{- range $name := $names -}}
{{- $flow := deepCopy (get $.flows $name) -}}
{{- if not $flow -}}
{{- fail (printf "%s.flows: there is no flow %q; there are %s" $.where $name (keys $.flows | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $kind := $flow.input.kind | default "prompt-request" -}}
{{- if not (has $kind $kinds) -}}
{{- fail (printf "%s.flows: mode %s cannot serve flow %q: its input.kind is %s, expected %s" $.where $worker.mode $name $kind (join " or " $kinds)) -}}
{{- end -}}
{{- $_ := set $flow "name" $name -}}
{{- if not $flow.input.subscription -}}
{{- $_ := set $flow.input "subscription" (printf "%s--%s--%s--request" $worker.id ($flow.workspace | default "default") $name) -}}
{{- end -}}
{{- $_ := set $served $name $flow -}}
{{- end -}}
{{- end -}}
{{- toJson $served -}}
{{- end -}}

{{/* Seconds until a Pod is killed: never before the process has ended by itself. */}}
{{- define "trustgraph-prompt.grace" -}}
{{- $sleep := dig "preStop" "sleep" "seconds" 0 .worker.lifecycle | int -}}
{{- $least := add (ceil .worker.drainTimeout) 15 $sleep | int -}}
{{- $grace := .worker.terminationGracePeriodSeconds | default $least | int -}}
{{- if lt $grace $least -}}
{{- fail (printf "%s.terminationGracePeriodSeconds: found %d, expected at least %d: drainTimeout, 15 seconds to end, and the sleep of preStop" .where $grace $least) -}}
{{- end -}}
{{- $grace -}}
{{- end -}}

{{/* The requests that one replica works on at once. */}}
{{- define "trustgraph-prompt.atOnce" -}}
{{- $sum := 0 -}}
{{- range .served -}}
{{- $sum = add $sum (.concurrency | default 8) -}}
{{- end -}}
{{- if not $sum -}}
{{- $sum = .concurrency | default (empty .existingFlows | ternary 64 8) -}}
{{- end -}}
{{- min $sum (.concurrency | default $sum) -}}
{{- end -}}

{{/* Why KEDA cannot ask Pulsar about the whole backlog of a worker; empty if it can. */}}
{{- define "trustgraph-prompt.unseen" -}}
{{- if not .served -}}
{{- empty .existingFlows | ternary "TrustGraph's config service has the flows" "the chart does not know the flows of existingFlows" -}}
{{- else -}}
{{- range $name, $flow := .served -}}
{{- if hasPrefix "non-persistent:" (include "trustgraph-prompt.topic" $flow.input.topic) -}}
{{- printf "the topic of flow %q is not persistent and keeps no backlog; " $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "trustgraph-prompt.checkExtractors" -}}
{{- if .worker.command.extracts -}}
{{- if not .worker.extractors -}}
{{- fail (printf "%s.extractors: needed with mode %s: the ids of the extractors to replace" .where .worker.mode) -}}
{{- end -}}
{{- else -}}
{{- range $key := list "extractors" "into" -}}
{{- if get $.worker $key -}}
{{- fail (printf "%s.%s: has no effect with mode %s, only with mode extract-trustgraph" $.where $key $.worker.mode) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "trustgraph-prompt.checkScaling" -}}
{{- $keda := .worker.scaling.keda -}}
{{- $hpa := .worker.scaling.hpa -}}
{{- $unseen := .worker.unseen | trimSuffix "; " -}}
{{- if and $keda.enabled $hpa.enabled -}}
{{- fail (printf "%s: keda and hpa are both enabled, and would both set the number of replicas: enable one" .where) -}}
{{- end -}}
{{- if and $hpa.enabled (gt ($hpa.minReplicas | int) ($hpa.maxReplicas | int)) -}}
{{- fail (printf "%s.hpa.minReplicas: found %v, expected at most maxReplicas (%v)" .where $hpa.minReplicas $hpa.maxReplicas) -}}
{{- end -}}
{{- if $keda.enabled -}}
{{- if gt ($keda.minReplicaCount | int) ($keda.maxReplicaCount | int) -}}
{{- fail (printf "%s.keda.minReplicaCount: found %v, expected at most maxReplicaCount (%v)" .where $keda.minReplicaCount $keda.maxReplicaCount) -}}
{{- end -}}
{{- if and $unseen (not $keda.prometheus.serverAddress) -}}
{{- fail (printf "%s.keda.prometheus.serverAddress: needed, because %s" .where $unseen) -}}
{{- end -}}
{{- if and $unseen (lt ($keda.minReplicaCount | int) 1) -}}
{{- fail (printf "%s.keda.minReplicaCount: found 0, expected at least 1, because %s" .where $unseen) -}}
{{- end -}}
{{- if and (not $unseen) (not .worker.pulsar.adminUrl) -}}
{{- fail (printf "%s.keda: needs pulsar.adminUrl, where it asks for the backlog" .where) -}}
{{- end -}}
{{- if and $unseen $keda.prometheus.authenticationRef.name (not $keda.prometheus.metadata.authModes) -}}
{{- fail (printf "%s.keda.prometheus.authenticationRef: has no effect without prometheus.metadata.authModes (basic, bearer, tls or custom)" .where) -}}
{{- end -}}
{{- range $keda.partitionedFlows -}}
{{- if not (hasKey $.flows .) -}}
{{- fail (printf "%s.keda.partitionedFlows: there is no flow %q; there are %s" $.where . (keys $.flows | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .worker.pulsar.auth.type "oauth2") (not .worker.pulsar.auth.oauth2.tokenUrl) -}}
{{- fail (printf "%s.keda: needs pulsar.auth.oauth2.tokenUrl, where it gets its tokens" .where) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "trustgraph-prompt.checkAccess" -}}
{{- $auth := .worker.pulsar.auth -}}
{{- if and (ne $auth.type "none") (not $auth.existingSecret) -}}
{{- fail (printf "%s.pulsar.auth.existingSecret: needed with type %s" .where $auth.type) -}}
{{- end -}}
{{- if and (eq $auth.type "oauth2") (not $auth.oauth2.issuerUrl) -}}
{{- fail (printf "%s.pulsar.auth.oauth2.issuerUrl: needed with type oauth2" .where) -}}
{{- end -}}
{{- if and .worker.pulsar.tls.caSecret .worker.pulsar.tls.caConfigMap -}}
{{- fail (printf "%s.pulsar.tls: found caSecret and caConfigMap, expected one of them" .where) -}}
{{- end -}}
{{- if and .worker.provider.caBundle.configMap .worker.provider.caBundle.secret -}}
{{- fail (printf "%s.provider.caBundle: found configMap and secret, expected one of them" .where) -}}
{{- end -}}
{{- end -}}
