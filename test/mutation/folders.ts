/**
 * The folders of `src` that are mutated, each with its fast tests on Node: a survivor has passed them all. A folder in
 * another has tests of its own.
 */
export const TESTS: Readonly<Record<string, readonly string[]>> = {
  'core/algorithms': [
    'test/unit/{calendar,concurrency,corrections,evaluate-charge,memory-store,token-bucket,window-log}.test.ts',
    'test/property/{calendar,concurrency,every-algorithm,penalties,refusals,slots,token-bucket,window-log,windows}.test.ts',
  ],
  'core/engine': [
    'test/unit/{call-context,engine,live-rules-engine,request-limiter,settlement,shard-health}.test.ts',
    'test/contract/counters.test.ts',
    'test/library/limiter.test.ts',
    'test/middleware/any/{fetch,hono}.test.ts',
    'test/property/{failures,library,local-share,statistics}.test.ts',
  ],
  'core/engine/leases': [
    'test/unit/{engine,lease-account,lease-clock,lease-size,leased-decision,leases,leasing}.test.ts',
    'test/property/{leased-decisions,leases,shared-calls}.test.ts',
  ],
  'core/engine/places': [
    'test/unit/{guarded-place,several-places,shard-health,split-plan}.test.ts',
    'test/property/{cluster,shards}.test.ts',
  ],
  'core/engine/refusals': [
    'test/unit/{early-refusals,hot-refusals,identity-memory,refusal-cache,refusal-memory,status-cache}.test.ts',
    'test/property/{refusals,shedding}.test.ts',
  ],
  'core/engine/stages': [
    'test/unit/{circuit-breaker,engine,live-rules-engine,mirror,pending-releases,request-limiter}.test.ts',
    'test/property/mirror.test.ts',
  ],
  'core/store': [
    'test/unit/{live-rules-engine,memory-tables,open-rules,several-places,store-parts}.test.ts',
    'test/unit/statistics/{read-statistics,recent,recorder}.test.ts',
    'test/contract/{counters,documents}.test.ts',
    'test/property/{copied-documents,location-copy,sketches,statistics}.test.ts',
  ],
  'core/store/durable-object': [
    'test/unit/{decision-standings,durable-object-store,ledger,limit-machine,negotiation,rows}.test.ts',
    'test/property/{object-alarm,object-clock,objects,slots,windows}.test.ts',
  ],
  'core/store/memory': [
    'test/unit/{calendar,memory-store,memory-tables,refusal-cache,store-parts}.test.ts',
    'test/library/{limiter,sliding-window-counter}.test.ts',
    'test/property/{library,penalties,slots,statistics,window-log,windows}.test.ts',
  ],
  'core/store/redis': [
    'test/unit/{redis-calls,redis-store,script,tcp-clients}.test.ts',
    'test/contract/*.test.ts',
    'test/fuzz/{hostile-servers,replies}.test.ts',
    'test/integration/counters.test.ts',
  ],
  'http/request': [
    'test/unit/{address,address-reader,authorization,authorize,body,canonical-path,changed-path,charge-builder,claiming-headers,claims}.test.ts',
    'test/unit/{cookie,fold,identify,identity-source,key-set,pattern,policy-finder,reading,received-request}.test.ts',
    'test/unit/{follow-response,protect,request-limiter,request-parts,settlement,target,verify-tokens}.test.ts',
    'test/property/{member-scanner,preflights,plans,unnamed-keys}.test.ts',
    'test/fuzz/{cookies,headers,identities,json-members,long-input,patterns,readings,spellings,tokens}.test.ts',
    'test/middleware/any/*.test.ts',
    'test/library/limiter.test.ts',
  ],
  lua: [
    'test/contract/{store,failures,new-identities,penalties,corrections}.test.ts',
    'test/property/{concurrency,every-algorithm,penalties,slots,token-bucket,windows}.test.ts',
  ],
  'lua/counters': ['test/contract/counters.test.ts', 'test/property/sketches.test.ts'],
  'lua/documents': ['test/contract/documents.test.ts'],
  'lua/upkeep': ['test/command/upkeep/{batches,sweep}.test.ts'],
}

/** Written by a command, or run by nothing but workerd, where Stryker cannot go. */
export const NOT_MUTATED = [
  'src/core/store/durable-object/limit-object.ts',
  'src/core/store/durable-object/tables.ts',
  'src/core/store/redis/counters/lua.ts',
  'src/core/store/redis/documents/lua.ts',
  'src/core/store/redis/lua.ts',
  'src/core/store/redis/more-lua.ts',
]
