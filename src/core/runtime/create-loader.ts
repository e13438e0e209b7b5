/**
 * Makes a function that loads a module with its first call: to import it again takes the runtime longer than to refuse a
 * request. Calls that come meanwhile load it as well, because on Workers none may wait for a promise of another.
 */
export function createLoader<Module>(load: () => Promise<Module>): () => Promise<Module> {
  let loaded: Module | undefined
  return async () => {
    loaded ??= await load()
    return loaded
  }
}
