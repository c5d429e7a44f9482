package main

// guide is printed when the demonstration is ready. Its arguments are the seconds that took, the directory of logs, the
// file with the environment, the path of kubectl, trafficGuide, the address of the page and the file with its token.
const guide = `
Quaymaster is ready after %.0[1]f s. Logs are in %[2]s. Try the following in another terminal, in this directory:

  . %[3]s

  # The page of the cloud: load balancers and their traffic, edges, jobs, certificates. Log in with the token in
  # %[7]s.
  %[6]s

  # A Service with four mistakes is denied. The response lists each mistake with its remedy; nothing is created.
  %[4]s apply -f examples/service-bad.yaml

  # A valid Service is admitted. dlb-listener-idle-timeout is added as a default, and an address appears within seconds.
  %[4]s apply -f examples/service-good.yaml
  %[4]s get service shop -o yaml
  bin/mycloud get load-balancers

%[5]s  # A change is applied within seconds: max_qps becomes 7000 for the listeners without a value of their own.
  %[4]s annotate --overwrite service shop service.beta.kubernetes.io/dlb-listener-maxqps=7000
  bin/mycloud get load-balancers -o yaml

  # node-2 becomes the only ingress node. The members of the node group change without a change to the Service.
  %[4]s annotate node node-2 node.beta.kubernetes.io/dlb-ingress-node=true
  bin/mycloud get node-groups -o yaml

  # Policies set defaults and limits: api gets 5000 from the cluster's policy, web gets 8000 from the namespace's
  # policy. The last command is denied, because the limit of 20000 applies to both.
  %[4]s label namespace default tier=shared
  %[4]s apply -f examples/policy-cluster.yaml
  %[4]s create service loadbalancer api --tcp=80
  %[4]s apply -f examples/policy-namespace.yaml
  %[4]s create service loadbalancer web --tcp=80
  %[4]s get services api web -o yaml
  %[4]s get clusterloadbalancerpolicies,loadbalancerpolicies
  %[4]s annotate --overwrite service web service.beta.kubernetes.io/dlb-listener-maxqps=50000

  # A volume gets its zone and node affinity. Its claim can be expanded to 30 GiB. A request for 35 GiB is rounded
  # up to 40 GiB with a warning, and a request beyond the maximum of the cloud's volume type is denied.
  %[4]s apply -f examples/volume.yaml
  %[4]s get persistentvolume data -o yaml
  %[4]s patch pvc data -p '{"spec":{"resources":{"requests":{"storage":"30Gi"}}}}'
  %[4]s patch pvc data -p '{"spec":{"resources":{"requests":{"storage":"35Gi"}}}}'
  %[4]s patch pvc data -p '{"spec":{"resources":{"requests":{"storage":"2Ti"}}}}'

  # If an instance is stopped, its Node gets a taint; if it is deleted, its Node is removed.
  bin/mycloud get instances
  bin/mycloud stop instance i-node-3
  bin/mycloud delete instance i-node-4
  %[4]s get nodes --watch

  # Deleting Services deletes their load balancers.
  %[4]s delete service shop api web
  bin/mycloud get load-balancers

The cloud and both roles of Quaymaster are restarted if you kill them. Press Ctrl-C to stop the demonstration.
`

// trafficGuide is a part of the guide if there is an edge. Its argument is the path of kubectl.
const trafficGuide = `  # The address answers: an edge carries the traffic to the Nodes. The limit of 100 connections per second of its admin
  # port holds: of 300 at once, those beyond it are refused (000).
  address=$(%[1]s get service shop -o jsonpath='{.status.loadBalancer.ingress[0].ip}')
  curl http://$address/          # the plots of the page move
  curl -s -Z -H 'Connection: close' -o /dev/null -w '%%{http_code}\n' "http://$address:8443/[1-300]" | sort | uniq -c

`
