/** The folders of `src` that are mutated, each with its fast tests on Node: a survivor has passed them all. */
export const TESTS: Readonly<Record<string, readonly string[]>> = {
  'core/algorithms': [
    'test/unit/{calendar,concurrency,corrections,memory-store}.test.ts',
    'test/property/{calendar,concurrency,every-algorithm,penalties,refusals,slots,token-bucket,window-log,windows}.test.ts',
  ],
  'core/engine': [
    'test/unit/{call-context,circuit-breaker,engine,hot-refusals,leased-decision,mirror,pending-releases}.test.ts',
    'test/unit/{refusal-cache,settlement,several-places,shard-health,status-cache}.test.ts',
    'test/property/{leased-decisions,leases,local-share,mirror,refusals,shards,shared-calls,cluster}.test.ts',
  ],
  'core/store': [
    'test/unit/{limit-machine,memory-store,memory-tables,redis-store,script}.test.ts',
    'test/contract/*.test.ts',
    'test/property/{every-algorithm,object-alarm,object-clock,objects,windows}.test.ts',
  ],
  'http/request': [
    'test/unit/{address,authorization,authorize,body,canonical-path,charge-builder,claiming-headers,claims}.test.ts',
    'test/unit/{cookie,identify,identity-source,pattern,policy-finder,reading,request-limiter,settlement}.test.ts',
    'test/unit/{target,verify-tokens}.test.ts',
    'test/property/{member-scanner,preflights,plans,unnamed-keys}.test.ts',
    'test/fuzz/{cookies,headers,identities,json-members,long-input,readings,tokens}.test.ts',
    'test/middleware/any/{fetch,hono}.test.ts',
  ],
  lua: [
    'test/contract/{store,failures,new-identities,penalties,corrections}.test.ts',
    'test/property/{concurrency,every-algorithm,penalties,slots,token-bucket,windows}.test.ts',
  ],
  'lua/counters': ['test/contract/counters.test.ts', 'test/property/sketches.test.ts'],
  'lua/documents': ['test/contract/documents.test.ts'],
  'lua/upkeep': ['test/command/upkeep/{batches,sweep}.test.ts'],
}
