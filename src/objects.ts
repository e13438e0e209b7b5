/**
 * A store of limiters and middleware in Durable Objects, on Workers.
 * @module sluice/objects
 */

export { OptionError } from './core/options/option-error.ts'
export { LazyObject as LimitObject } from './core/store/durable-object/lazy-object.ts'
export type { ObjectNamespace } from './core/store/durable-object/objects.ts'
export { type ObjectStoreOptions, objectStore } from './library/object-store.ts'
export type { LimiterStore } from './library/stores.ts'
