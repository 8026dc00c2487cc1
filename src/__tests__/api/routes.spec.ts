import { methodOf, pathOf } from '../../api/routes';

describe('the paths of routes', () => {
  it('have the id as one quoted segment', () => {
    expect(pathOf('stop_job', 'a/b $& {name:path}')).toBe(
      'jobs/a%2Fb%20%24%26%20%7Bname%3Apath%7D/stop'
    );
  });

  it('keep the folders of an artifact and quote their names', () => {
    expect(pathOf('download_artifact', 'a', 'out puts/x?.csv')).toBe(
      'jobs/a/artifacts/out%20puts/x%3F.csv'
    );
  });

  it('have the method of the table', () => {
    expect([methodOf('list_jobs'), methodOf('extend_pool')]).toEqual(['GET', 'PATCH']);
  });
});
