/**
 * Makes a function that loads a module with its first call: to import it again takes the runtime longer than to refuse a
 * request. Calls that come meanwhile load it as well, because on Workers none may wait for a promise of another.
 */
export function createLoader<Module>(load: () => Promise<Module>): () => Module | Promise<Module> {
  let loaded: Module | undefined
  return () =>
    loaded ??
    load().then((module) => {
      loaded = module
      return module
    })
}
